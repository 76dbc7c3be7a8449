#include "services/scheduler/core/queue_sight.h"

#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/time/clock.h"

namespace capstan::scheduler {

std::unique_ptr<QueueSight> SeeQueues(const Model& model, const NodeUsage& usage,
                                      const std::vector<NodeStanding>& nodes, absl::Time now) {
  if (usage.shares().size() > kMostGangsSeen) return nullptr;
  auto sight = std::make_unique<QueueSight>();
  std::set<std::string> accelerators;
  for (const auto& [id, node] : model.nodes) AddAccelerators(node.observation(), &accelerators);
  sight->book.SetNow(Now{now, BootTime()});
  sight->book.SetTree(model.queues, accelerators);
  model.jobs.ForEachLive([&](absl::string_view, const JobEntry& job) { sight->book.SetLive(job); });
  // Those first that room is made or kept for.
  std::vector<std::string> kept;
  model.jobs.ForEachWaiting([&](absl::string_view uid) {
    const absl::optional<JobGlance> job = model.jobs.Glance(uid);
    if (!job.has_value() || !job->has_room_kept() || kept.size() == kMostGangsSeen) return false;
    kept.emplace_back(uid);
    return true;
  });
  for (const std::string& uid : kept) {
    const JobEntry* const job = model.FindJob(uid);
    if (job != nullptr && !job->live()) sight->book.SetLive(*job);
  }
  std::vector<Amounts> free;
  for (const NodeStanding& node : nodes) {
    if (node.capacity.eligible && !node.maintained) free.push_back(node.capacity.free);
  }
  sight->free = sight->book.Sum(free);
  sight->capacity = sight->book.Capacity(free);
  return sight;
}

}  // namespace capstan::scheduler
