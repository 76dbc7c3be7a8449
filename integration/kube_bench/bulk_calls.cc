#include "integration/kube_bench/bulk_calls.h"

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "libs/kube/config/load_client_config.h"

namespace capstan::kube::bench {

absl::StatusOr<std::unique_ptr<Connection>> Connect(const std::string& kubeconfig,
                                                    const Clock* clock) {
  LoadOptions load;
  load.explicit_path = kubeconfig;
  return Connection::Open({}, load, {}, clock);
}

absl::Status Each(Strand* strand, int count, int concurrency, StartCall start) {
  struct Calls {
    std::vector<std::unique_ptr<PendingCall>> calls;
    int next = 0;
    int left = 0;
    absl::Status failure;
    absl::Mutex mutex;
    bool done ABSL_GUARDED_BY(mutex) = false;
    std::function<void()> more;
  };
  Calls all;
  all.calls.resize(static_cast<size_t>(count));
  all.left = count;
  // On the strand, all but `done`.
  all.more = [&] {
    const int i = all.next++;
    if (i >= count) return;
    all.calls[static_cast<size_t>(i)] = start(i, [&, i](absl::Status status) {
      if (!status.ok() && all.failure.ok()) all.failure = std::move(status);
      all.calls[static_cast<size_t>(i)].reset();
      if (--all.left == 0) {
        absl::MutexLock lock(&all.mutex);
        all.done = true;
      } else {
        all.more();
      }
    });
  };
  strand->Post([&] {
    for (int i = 0; i < concurrency; ++i) all.more();
  });
  absl::MutexLock lock(&all.mutex);
  all.mutex.Await(absl::Condition(&all.done));
  return all.failure;
}

core_v1::Pod MakePod(const std::string& ns, const std::string& name) {
  core_v1::Pod pod;
  pod.mutable_metadata()->set_namespace_(ns);
  pod.mutable_metadata()->set_name(name);
  pod.mutable_spec()->set_scheduler_name("none");
  auto* const container = pod.mutable_spec()->add_containers();
  container->set_name("c");
  container->set_image("i");
  return pod;
}

core_v1::Pod MakeLargePod(const std::string& ns, const std::string& prefix, int i) {
  core_v1::Pod pod = MakePod(ns, absl::StrCat(prefix, "-", i));
  auto& labels = *pod.mutable_metadata()->mutable_labels();
  labels["app"] = "train";
  labels["job"] = absl::StrCat("job-", i / 64);
  labels["rank"] = absl::StrCat(i % 64);
  (*pod.mutable_metadata()->mutable_annotations())["example.org/team"] = "research";
  auto* const container = pod.mutable_spec()->mutable_containers(0);
  container->set_image("registry.example.org/team/trainer:1.2.3");
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NCCL_DEBUG"}) {
    auto* const variable = container->add_env();
    variable->set_name(name);
    variable->set_value(absl::StrCat("value-", i));
  }
  auto& limits = *container->mutable_resources()->mutable_limits();
  limits["cpu"].set_string("8");
  limits["memory"].set_string("64Gi");
  return pod;
}

core_v1::Node MakeNode(int i) {
  core_v1::Node node;
  node.mutable_metadata()->set_name(absl::StrCat("followed-", i));
  auto& labels = *node.mutable_metadata()->mutable_labels();
  labels["kubernetes.io/hostname"] = node.metadata().name();
  labels["topology.kubernetes.io/zone"] = absl::StrCat("zone-", i % 3);
  labels["example.org/rack"] = absl::StrCat("rack-", i / 16);
  for (auto* const resources :
       {node.mutable_status()->mutable_capacity(), node.mutable_status()->mutable_allocatable()}) {
    (*resources)["cpu"].set_string("96");
    (*resources)["memory"].set_string("1024Gi");
    (*resources)["pods"].set_string("110");
    (*resources)["nvidia.com/gpu"].set_string("8");
  }
  return node;
}

}  // namespace capstan::kube::bench
