#include "services/scheduler/core/queue_checks.h"

#include <set>

#include "absl/numeric/int128.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/queue_book.h"
#include "services/scheduler/core/quota/resources.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {
namespace {

std::string QueueOf(const JobEntry& job) {
  return std::string(absl::StripPrefix(job.spec.spec().queue(), "queues/"));
}

// What the Job's live Tasks have, but for what is given up for somebody else.
Amounts HeldBy(const JobEntry& job) {
  Amounts amounts;
  if (!job.live() || IsMakingWay(*job.gang)) return amounts;
  const bool shrinks = IsShrinking(job);
  int rank = 0;
  for (int g = 0; g < job.spec.spec().task_groups_size(); ++g) {
    const int size = SizeOf(job, g);
    int64_t live = 0;
    for (int i = 0; i < size; ++i, ++rank) {
      live += !job.gang->ended(rank) && !(shrinks && IsSpare(job, rank)) ? 1 : 0;
    }
    if (live > 0) amounts.Add(Amounts::From(job.spec.spec().task_groups(g).resources()), live);
  }
  return amounts;
}

}  // namespace

void QueueChecks::Check(const Model& model, const std::vector<capstan::event::v1::JobEvent>& events,
                        Now now) {
  std::set<std::string> begun, returned, promised;
  for (; seen_ < events.size(); ++seen_) {
    const auto& event = events[seen_];
    if (event.has_task() || event.reason() == "UPDATED") continue;
    std::string& reason = reasons_[event.job_uid()];
    if (event.reason() == "PLACED") {
      (reason == kReturning ? returned : begun).insert(event.job_uid());
    }
    // It was counted when room began to be made for it.
    if (event.reason() == "PLACED" && reason == "MAKING_ROOM") {
      promised.insert(event.job_uid());
    }
    reason = event.reason();
  }
  if (begun.empty() && returned.empty()) return;
  const QueueTree tree(QueueSpecsOf(model.queues), {"cpu", "memory"});
  TreeUsage usage(tree);
  model.jobs.ForEachLive([&](absl::string_view, const JobEntry& job) {
    usage.Add(*tree.Find(QueueOf(job)), ResourcesOf(tree, HeldBy(job)));
  });
  for (const std::string& uid : begun) {
    const JobEntry* job = model.FindJob(uid);
    if (job == nullptr || !job->live()) continue;
    CheckStops(model, *job);
    CheckLimits(usage, *job);
    if (promised.count(uid) == 0) CheckRates(tree, *job, now);
  }
  for (const std::string& uid : returned) {
    const JobEntry* job = model.FindJob(uid);
    if (job != nullptr && job->live()) CheckLimits(usage, *job);
  }
}

void QueueChecks::CheckStops(const Model& model, const JobEntry& job) {
  const std::string above = QueueAbove(
      model, QueueOf(job),
      [](const capstan::scheduler::v1::Queue& queue) { return queue.hold() || queue.drain(); });
  EXPECT_EQ(above, "") << job.uid() << " has begun in " << QueueOf(job);
}

// Each level at which what is claimed grew with the Job is within its limit with all that is there:
// what a Queue lends to nobody is claimed without being used.
void QueueChecks::CheckLimits(const TreeUsage& usage, const JobEntry& job) {
  const QueueTree& tree = usage.tree();
  const int leaf = *tree.Find(QueueOf(job));
  TreeUsage before = usage;
  before.Remove(leaf, ResourcesOf(tree, HeldBy(job)));
  for (int i = leaf; i > QueueTree::kRoot; i = tree.node(i).parent) {
    for (int r = 0; r < tree.resource_count(); ++r) {
      if (before.claim(i, r) == usage.claim(i, r) || tree.node(i).cap[r] == kNoBound) continue;
      ++limited_;
      EXPECT_LE(usage.claim(i, r), tree.node(i).cap[r])
          << job.uid() << " takes queue " << tree.node(i).id << " beyond what it may have of "
          << tree.resources().name(r);
    }
  }
}

void QueueChecks::CheckRates(const QueueTree& tree, const JobEntry& job, Now now) {
  for (int i = *tree.Find(QueueOf(job)); i > QueueTree::kRoot; i = tree.node(i).parent) {
    const QueueNode& node = tree.node(i);
    if (!node.start_rate.has_value()) {
      windows_.erase(node.id);
      continue;
    }
    const Rate& rate = *node.start_rate;
    Window& window = windows_.try_emplace(node.id, Window{rate, now.boot}).first->second;
    if (!(window.rate == rate)) window = Window{rate, now.boot};
    ++window.starts;
    ++rated_;
    // No more than the burst, and what has come since: in nanoseconds, exactly.
    const absl::int128 beyond =
        absl::int128(window.starts - rate.burst) * absl::ToInt64Nanoseconds(rate.period);
    EXPECT_LE(beyond, absl::int128(rate.count) * absl::ToInt64Nanoseconds(now.boot - window.since))
        << job.uid() << " starts too soon in queue " << node.id;
  }
}

}  // namespace capstan::scheduler
