#include "services/scheduler/core/queue_sight.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/time/clock.h"

namespace capstan::scheduler {

std::unique_ptr<QueueSight> SeeQueues(const Model& model, const NodeUsage& usage,
                                      const std::vector<NodeStanding>& nodes,
                                      const std::vector<JobGlance>& waiting_with_gang,
                                      absl::Time now) {
  if (usage.shares().size() > kMostGangsSeen) return nullptr;
  auto book = std::make_unique<QueueBook>();
  std::set<std::string> accelerators;
  for (const auto& [id, node] : model.nodes) AddAccelerators(node.observation(), &accelerators);
  book->SetNow(Now{now, BootTime()});
  book->SetTree(model.queues, accelerators);
  model.jobs.ForEachLive([&](absl::string_view, const JobEntry& job) { book->SetLive(job); });
  // Those first that room is made or kept for.
  std::vector<std::string> kept;
  model.jobs.ForEachWaiting(waiting_with_gang, [&](absl::string_view uid) {
    const absl::optional<JobGlance> job = model.jobs.Glance(uid);
    if (!job.has_value() || !job->has_room_kept() || kept.size() == kMostGangsSeen) return false;
    kept.emplace_back(uid);
    return true;
  });
  for (const std::string& uid : kept) {
    const JobEntry* const job = model.FindJob(uid);
    if (job != nullptr && !job->live()) book->SetLive(*job);
  }
  std::unique_ptr<QueueSight> sight = SeeQueues(*book, nodes);
  sight->own = std::move(book);
  return sight;
}

std::unique_ptr<QueueSight> SeeQueues(const QueueBook& book,
                                      const std::vector<NodeStanding>& nodes) {
  std::vector<Amounts> free;
  free.reserve(nodes.size());
  for (const NodeStanding& node : nodes) {
    if (node.capacity.eligible && !node.maintained) free.push_back(node.capacity.free);
  }
  auto sight = std::make_unique<QueueSight>();
  sight->book = &book;
  sight->free = book.Sum(free);
  sight->capacity = book.Capacity(free);
  return sight;
}

}  // namespace capstan::scheduler
