#include "services/scheduler/core/bench_fleet.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/validate.h"

namespace capstan::scheduler::bench_fleet {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::NodeObservation;
using capstan::type::v1::TaskObservation;

namespace {

constexpr char kGpu[] = "nvidia.com/h100";
constexpr int64_t kGib = int64_t{1} << 30;

JobEntry Queued(JobSpec spec, absl::Time submitted, const std::string& uid,
                int64_t submit_sequence) {
  JobEntry job;
  job.spec.set_schema_version(1);
  job.spec.set_uid(uid);
  job.spec.set_name(absl::StrCat("projects/p/jobs/", uid));
  job.spec.set_submitter("person-1");
  job.spec.set_submit_sequence(submit_sequence);
  *job.spec.mutable_create_time() = ToProto(submitted);
  ApplyDefaults("projects/p", CoreConfig(), &spec);
  *job.spec.mutable_spec() = std::move(spec);
  job.state.set_schema_version(1);
  job.state.set_version(1);
  job.state.set_state(Job::STATE_QUEUED);
  return job;
}

}  // namespace

std::string NodeName(int index) { return absl::StrCat("n", index); }

JobSpec Gang(int tasks, int gpus, int queue) {
  JobSpec spec;
  spec.set_queue(absl::StrCat("queues/q", queue));
  auto& group = *spec.add_task_groups();
  group.set_name("w");
  group.set_replicas(tasks);
  group.add_argv("/bin/true");
  group.mutable_resources()->set_cpu_millis(1000 * gpus);
  group.mutable_resources()->set_memory_bytes(gpus * kGib);
  (*group.mutable_resources()->mutable_accelerators())[kGpu] = gpus;
  return spec;
}

NodeObservation NodeReport(int index) {
  NodeObservation node;
  node.set_node(NodeName(index));
  node.mutable_allocatable()->set_cpu_millis(128'000);
  node.mutable_allocatable()->set_memory_bytes(2048 * kGib);
  (*node.mutable_allocatable()->mutable_accelerators())[kGpu] = 8;
  (*node.mutable_labels())["topology.kubernetes.io/zone"] = absl::StrCat("z", index / 1024);
  (*node.mutable_labels())["capstan.dev/rack"] = absl::StrCat("r", index / 16);
  return node;
}

JobSpec SpecOf(int shape, int queue) { return Gang(1 << (shape % 5), 1 << (shape / 5), queue); }

JobEntry& AddQueued(JobSpec spec, absl::Time submitted, Model* model) {
  const int64_t sequence = static_cast<int64_t>(model->jobs.size()) + 1;
  return model->jobs.Add(
      Queued(std::move(spec), submitted, absl::StrCat("uid-", sequence), sequence));
}

JobEntry Told(JobSpec spec, absl::Time submitted, const std::string& uid, int64_t submit_sequence) {
  const auto& group = spec.task_groups(0);
  const std::string words =
      absl::StrCat("needs ", group.replicas(), " x ", group.resources().accelerators().at(kGpu),
                   " ", kGpu, "; 0 fit on 7500 nodes: on 7500 there is too little ", kGpu);
  JobEntry job = Queued(std::move(spec), submitted, uid, submit_sequence);
  job.state.set_version(2);
  job.state.set_reason("INSUFFICIENT_RESOURCES");
  job.state.set_message(words);
  // No two at the same time.
  const absl::Time told = submitted + absl::Microseconds(submit_sequence);
  *job.state.mutable_phase_time() = ToProto(told);
  *job.state.mutable_update_time() = ToProto(told);
  return job;
}

JobEntry& AddTold(JobSpec spec, absl::Time submitted, Model* model) {
  const int64_t sequence = static_cast<int64_t>(model->jobs.size()) + 1;
  return model->jobs.Add(
      Told(std::move(spec), submitted, absl::StrCat("uid-", sequence), sequence));
}

JobSpec LargeSpecOf(int shape, int queue, Random* random) {
  constexpr int kSettings = 12;
  JobSpec spec = SpecOf(shape, queue);
  const auto number = [random](uint64_t below) { return absl::StrCat(random->Below(below)); };
  auto& group = *spec.mutable_task_groups(0);
  group.clear_argv();
  for (const std::string& word :
       {std::string("python3"), std::string("-m"), std::string("train.main"),
        absl::StrCat("--config=configs/experiments/sweep-", number(40), "/model.yaml"),
        absl::StrCat("--learning-rate=0.000", number(100'000)),
        absl::StrCat("--weight-decay=0.", number(10'000)), absl::StrCat("--seed=", number(1 << 30)),
        absl::StrCat("--checkpoints=/shared/checkpoints/person-", number(200), "/",
                     random->Uuid4())}) {
    group.add_argv(word);
  }
  for (int i = 0; i < kSettings; ++i) {
    (*group.mutable_env())[absl::StrCat("TRAIN_SETTING_", i)] =
        absl::StrCat("value-of-the-setting-", i, "-is-", number(1000));
  }
  (*group.mutable_env())["RUN_TOKEN"] = random->Uuid4();
  (*spec.mutable_labels())["experiment"] = absl::StrCat("sweep-", number(40));
  (*spec.mutable_labels())["run"] = random->Uuid4();
  spec.set_service_account(absl::StrCat("trainer-", number(20)));
  return spec;
}

void AddQueues(const QueueShape& shape, int nodes, Model* model) {
  AddQueues(shape, nodes, NodeReport(0).allocatable(), model);
}

void AddFull(int nodes, absl::Time started, Model* model, const QueueShape& shape) {
  AddQueues(shape, nodes, model);
  for (int n = 0; n < nodes; ++n) {
    // Not some of the Queues alone.
    const int queue = nodes < shape.leaves ? static_cast<int>(int64_t{n} * shape.leaves / nodes)
                                           : n % shape.leaves;
    JobSpec spec = Gang(1, 8, queue);
    spec.set_priority(HighestPriority(shape));
    JobEntry& job = AddQueued(std::move(spec), started, model);
    BeginGeneration(kCluster, {NodeName(n)}, {1}, &job);
    job.gang->head.set_phase(rec::GangHeadRecord::PHASE_STARTED);
    job.gang->tasks[0].set_state(TaskObservation::STATE_RUNNING);
    job.state.set_state(Job::STATE_RUNNING);
    *job.state.mutable_start_time() = ToProto(started);
  }
}

}  // namespace capstan::scheduler::bench_fleet
