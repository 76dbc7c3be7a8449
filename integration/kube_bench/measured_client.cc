#include "integration/kube_bench/measured_client.h"

#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "integration/kube_bench/bulk_calls.h"
#include "integration/kube_bench/own_use.h"
#include "libs/kube/client/pod_calls.h"
#include "libs/kube/connection/connection.h"
#include "libs/kube/informer/cache.h"
#include "libs/kube/informer/delivery.h"
#include "libs/kube/objects/resources.h"
#include "libs/status/status_macros.h"
#include "libs/time/system_clock.h"
#include "nlohmann/json.hpp"

namespace capstan::kube::bench {
namespace {

void Say(const nlohmann::json& line) {
  std::puts(line.dump().c_str());
  std::fflush(stdout);
}

absl::StatusOr<nlohmann::json> FollowAll(const std::string& kubeconfig) {
  const SystemClock clock;
  nlohmann::json told;
  const OwnUse start(&clock);
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect(kubeconfig, &clock));
  CAPSTAN_ASSIGN_OR_RETURN(auto* const nodes, connection->Follow(kNodes));
  CAPSTAN_ASSIGN_OR_RETURN(auto* const pods, connection->Follow(kPods));
  connection->informers()->Start();
  CAPSTAN_RETURN_IF_ERROR(connection->informers()->AwaitSynced(absl::Minutes(5)));
  start.Since("sync", &told);
  told["objects"] = nodes->stats().objects + pods->stats().objects;
  told["rss_bytes"] = OwnMemory("VmRSS");
  told["peak_rss_bytes"] = OwnMemory("VmHWM");
  return told;
}

absl::StatusOr<nlohmann::json> BindAll(const std::vector<std::string>& arguments) {
  const std::string& ns = arguments[2];
  const std::string& prefix = arguments[3];
  const std::string& node = arguments[6];
  int count = 0;
  int concurrency = 0;
  if (!absl::SimpleAtoi(arguments[4], &count) || !absl::SimpleAtoi(arguments[5], &concurrency)) {
    return absl::InvalidArgumentError("COUNT and CONCURRENCY are numbers");
  }
  const SystemClock clock;
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect(arguments[1], &clock));
  nlohmann::json told = {{"count", count}};
  std::vector<std::string> uids(static_cast<size_t>(count));
  const OwnUse creates(&clock);
  CAPSTAN_RETURN_IF_ERROR(CreateAll<core_v1::Pod>(
      connection.get(), kPods, count, concurrency,
      [&](int i) { return MakePod(ns, absl::StrCat(prefix, "-", i)); }, &uids));
  creates.Since("create", &told);
  const OwnUse binds(&clock);
  CAPSTAN_RETURN_IF_ERROR(
      Each(connection->client()->strand(), count, concurrency,
           [&](int i, std::function<void(absl::Status)> done) {
             return BindPod(connection->client(), ns, absl::StrCat(prefix, "-", i),
                            uids[static_cast<size_t>(i)], node,
                            [done = std::move(done)](absl::StatusOr<ApiResponse> response) {
                              done(response.status());
                            });
           }));
  binds.Since("bind", &told);
  return told;
}

// Follows Pods, says so once a handler was told of them all, and returns when `seen` has said that a
// Pod is the last.
absl::Status FollowUntil(Connection* connection,
                         const std::function<bool(const core_v1::Pod&)>& seen,
                         const std::function<void()>& synced) {
  CAPSTAN_ASSIGN_OR_RETURN(auto* const pods, connection->Follow(kPods));
  // Of both below.
  absl::Mutex mutex;
  bool told = false;
  bool done = false;
  Handler<core_v1::Pod> handler;
  handler.on_change = [&](const CacheChange<core_v1::Pod>& change, bool) {
    if (change.after == nullptr || !seen(*change.after)) return;
    absl::MutexLock lock(&mutex);
    done = true;
  };
  handler.on_synced = [&] {
    absl::MutexLock lock(&mutex);
    told = true;
  };
  const auto subscription = pods->AddHandler(connection->informer_strand(), std::move(handler));
  connection->informers()->Start();
  absl::MutexLock lock(&mutex);
  if (!mutex.AwaitWithTimeout(absl::Condition(&told), absl::Minutes(5))) {
    return absl::DeadlineExceededError("no list has come in 5 min");
  }
  synced();
  Say({{"synced", true}});
  if (!mutex.AwaitWithTimeout(absl::Condition(&done), absl::Minutes(5))) {
    return absl::DeadlineExceededError("what it waits for has not come in 5 min");
  }
  return absl::OkStatus();
}

absl::StatusOr<nlohmann::json> HandleEvents(const std::vector<std::string>& arguments) {
  int count = 0;
  if (!absl::SimpleAtoi(arguments[4], &count)) {
    return absl::InvalidArgumentError("COUNT is a number");
  }
  const SystemClock clock;
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect(arguments[1], &clock));
  nlohmann::json told = {{"count", count}};
  std::unique_ptr<OwnUse> use;
  size_t bytes = 0;
  CAPSTAN_RETURN_IF_ERROR(FollowUntil(
      connection.get(),
      [&](const core_v1::Pod& pod) {
        const auto round = pod.metadata().annotations().find("round");
        if (pod.metadata().namespace_() != arguments[2] ||
            round == pod.metadata().annotations().end() || round->second != arguments[3]) {
          return false;
        }
        // As a handler looks at what it is told.
        bytes += pod.spec().node_name().size() + pod.status().phase().size();
        return --count == 0;
      },
      [&] { use = std::make_unique<OwnUse>(&clock); }));
  use->Since("events", &told);
  told["read_bytes"] = bytes;
  return told;
}

absl::StatusOr<nlohmann::json> AwaitPod(const std::vector<std::string>& arguments) {
  const SystemClock clock;
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect(arguments[1], &clock));
  CAPSTAN_RETURN_IF_ERROR(FollowUntil(
      connection.get(),
      [&](const core_v1::Pod& pod) {
        return pod.metadata().namespace_() == arguments[2] && pod.metadata().name() == arguments[3];
      },
      [] {}));
  return nlohmann::json{
      {"seen_at_s", absl::ToDoubleSeconds(clock.Read().wall - absl::UnixEpoch())}};
}

absl::StatusOr<nlohmann::json> Run(const std::vector<std::string>& arguments) {
  const std::string what = arguments.empty() ? "" : arguments[0];
  if (what == "informer" && arguments.size() == 2) return FollowAll(arguments[1]);
  if (what == "bind" && arguments.size() == 7) return BindAll(arguments);
  if (what == "events" && arguments.size() == 5) return HandleEvents(arguments);
  if (what == "await" && arguments.size() == 4) return AwaitPod(arguments);
  return absl::InvalidArgumentError("see measured_client.h");
}

}  // namespace

absl::Status RunMeasuredClient(const std::vector<std::string>& arguments) {
  CAPSTAN_ASSIGN_OR_RETURN(const nlohmann::json told, Run(arguments));
  Say(told);
  return absl::OkStatus();
}

}  // namespace capstan::kube::bench
