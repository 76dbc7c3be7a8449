#include "services/scheduler/core/room_checks.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"

namespace capstan::scheduler {
namespace {

Amounts WithoutMig(Amounts amounts) {
  amounts.mig = {};
  return amounts;
}

void CheckNode(const Model& model, const NodeId& id, const Amounts& used) {
  const auto node = model.nodes.find(id);
  ASSERT_TRUE(node != model.nodes.end()) << id.Name();
  ASSERT_GE(AllocatableOf(node->second.observation()).Fits(used, 1), 1)
      << id.Name() << " is over-committed";
}

}  // namespace

RoomChecks::Use RoomChecks::UseOf(const JobEntry& job) {
  Use use;
  if (!job.live()) return use;
  for (int rank = 0; rank < static_cast<int>(job.gang->nodes.size()); ++rank) {
    if (job.gang->ended(rank)) continue;
    const int group = GroupOf(job, rank).first;
    use[job.gang->node(rank)].Add(
        WithoutMig(Amounts::From(job.spec.spec().task_groups(group).resources())));
  }
  return use;
}

void RoomChecks::Check(const Model& model) {
  Use used;
  for (const auto& [uid, job] : model.jobs) {
    for (const auto& [id, amounts] : UseOf(job)) used[id].Add(amounts);
  }
  for (const auto& [id, amounts] : used) CheckNode(model, id, amounts);
}

void RoomChecks::Apply(const Write& write, const std::vector<std::string>& deleted) {
  for (const store::Put& put : write.puts) {
    const absl::Status applied = stored_.Apply(put.key, absl::string_view(put.value));
    ASSERT_TRUE(applied.ok()) << applied;
  }
  for (const std::string& key : deleted) {
    const absl::Status applied = stored_.Apply(key, absl::nullopt);
    ASSERT_TRUE(applied.ok()) << applied;
  }
  const absl::Status resolved = stored_.Resolve();
  ASSERT_TRUE(resolved.ok()) << resolved;
  stored_.TakeTouchedNodes();
  stored_.TakeRemovedJobs();
  for (const std::string& uid : stored_.TakeTouchedJobs()) {
    const JobEntry* job = stored_.model().FindJob(uid);
    Use use = job == nullptr ? Use() : UseOf(*job);
    Use before = std::exchange(uses_[uid], use);
    for (const auto& [id, amounts] : before) used_[id].Subtract(amounts);
    for (const auto& [id, amounts] : use) {
      used_[id].Add(amounts);
      // A Node may have less than it had while what is there stays.
      if (before[id].Fits(amounts, 1) < 1) CheckNode(stored_.model(), id, used_[id]);
    }
    if (use.empty()) uses_.erase(uid);
  }
}

}  // namespace capstan::scheduler
