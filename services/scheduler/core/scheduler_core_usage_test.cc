// What Queues used in the past: whose turn it is then, what is stored of it, and what a new leader
// knows.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/core_test_fixture.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/render.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Queue;
using capstan::type::v1::TaskEnd;

constexpr absl::Duration kHalfLife = absl::Hours(1);

// Two Nodes of four cores each, and Queues `a` and `b` below `team`.
class SchedulerCoreUsageTest : public SchedulerCoreTest {
 protected:
  void CreateQueues(absl::Duration half_life) {
    Queue team;
    if (half_life > absl::ZeroDuration()) *team.mutable_usage_half_life() = ToProto(half_life);
    Create("team", team);
    Queue below;
    below.set_parent("queues/team");
    Create("a", below);
    Create("b", below);
    executor_.Connect();
  }
  void Create(const std::string& id, const Queue& queue) {
    CreateQueue create;
    create.call = harness_.next_call();
    create.queue_id = id;
    create.uid = absl::StrCat("uid-", id);
    create.queue = queue;
    Take(harness_.Apply(create));
  }
  void SetHalfLife(absl::Duration half_life) {
    UpdateQueue update;
    update.call = harness_.next_call();
    update.queue_id = "team";
    update.update_mask.add_paths("usage_half_life");
    *update.queue.mutable_usage_half_life() = ToProto(half_life);
    Take(harness_.Apply(update));
  }
  void Take(const std::vector<Effect>& effects) {
    for (const ReplyQueue& reply : Of<ReplyQueue>(effects)) {
      ASSERT_TRUE(reply.queue.ok()) << reply.queue.status();
    }
    executor_.Take(effects);
  }
  static JobSpec In(const std::string& queue, int replicas) {
    JobSpec spec = CoreHarness::Spec(replicas, 1000);
    spec.set_queue(absl::StrCat("queues/", queue));
    return spec;
  }
  void EndJob(const std::string& id, int replicas) {
    for (int i = 0; i < replicas; ++i) {
      executor_.End(absl::StrCat(id, "/1/worker-", i), TaskEnd::CAUSE_EXITED);
    }
    ASSERT_EQ(StateOf(id), Job::STATE_SUCCEEDED);
  }
  // Runs a Job of eight cores in the Queue for so long.
  void Use(const std::string& queue, absl::Duration d) {
    const std::string id = absl::StrCat("used-", queue, ++used_);
    RunJob(id, In(queue, 8));
    Pass(d);
    EndJob(id, 8);
  }
  // Time passes, and the executor is heard at its end.
  void Pass(absl::Duration d) {
    harness_.Sleep(d);
    executor_.Renew();
  }
  // Which of the two goes first if both ask and there is room for one: `a` asks first.
  std::string First() {
    const std::string a = absl::StrCat("a", ++asked_), b = absl::StrCat("b", asked_);
    executor_.Disconnect();
    Submit(a, In("a", 8));
    Submit(b, In("b", 8));
    executor_.Connect();
    EXPECT_NE(StateOf(a), StateOf(b));
    const std::string first = StateOf(a) == Job::STATE_PREPARING ? "a" : "b";
    // The one that waits first.
    for (const std::string& id : {first == "a" ? b : a, first == "a" ? a : b}) {
      Take(harness_.Apply(
          CancelJob{harness_.next_call(), absl::StrCat("projects/p/jobs/", id), ""}));
    }
    return first;
  }
  std::string Stored(const std::string& queue) const {
    const auto record = harness_.records().find(QueueUsageKey(queue));
    return record == harness_.records().end() ? "" : record->second;
  }
  // Cores on average, as everybody sees it.
  double Average(const std::string& queue) {
    const Model& model = harness_.core().model();
    const auto usage = model.queue_usage.find(queue);
    if (usage == model.queue_usage.end()) return 0;
    const Queue shown = RenderQueue(model.queues.at(queue), &usage->second, harness_.now().wall);
    for (const auto& one : shown.usage()) {
      if (one.resource() == "cpu") return one.average() / 1000;
    }
    return 0;
  }

 private:
  int used_ = 0;
  int asked_ = 0;
};

TEST_F(SchedulerCoreUsageTest, WhoUsedMuchComesAfterWhoUsedLittle) {
  CreateQueues(kHalfLife);
  EXPECT_EQ(First(), "a") << "nobody used anything";
  Use("a", kHalfLife);
  EXPECT_EQ(First(), "b");
  EXPECT_NEAR(Average("a"), 4, 0.1);
  EXPECT_NEAR(Average("team"), 4, 0.1);
  EXPECT_NEAR(Average("b"), 0, 0.1);
  // As much of the other, and as long ago by now.
  Use("b", kHalfLife);
  EXPECT_EQ(First(), "a");
  // What both used is forgotten.
  Pass(absl::Hours(60));
  EXPECT_EQ(Average("a"), 0);
  EXPECT_EQ(Average("b"), 0);
  EXPECT_EQ(First(), "a");
}

TEST_F(SchedulerCoreUsageTest, WithoutAHalfLifeThePastDoesNotCountAndIsNotStored) {
  CreateQueues(absl::ZeroDuration());
  Use("a", kHalfLife);
  EXPECT_EQ(First(), "a");
  for (const auto& [key, value] : harness_.records()) {
    EXPECT_FALSE(absl::StrContains(key, "queue_usage")) << key;
  }
}

TEST_F(SchedulerCoreUsageTest, AHalfLifeCanBeSetChangedAndTakenAway) {
  CreateQueues(absl::ZeroDuration());
  RunJob("steady", In("a", 4));
  Pass(kHalfLife);
  SetHalfLife(kHalfLife);
  EXPECT_NE(Stored("a"), "") << "what is in use is known at once";
  EXPECT_NE(Stored("team"), "");
  EXPECT_EQ(Stored("b"), "") << "nothing is known of who used nothing";
  EXPECT_EQ(Average("a"), 0) << "the past begins now";
  Pass(kHalfLife);
  EXPECT_NEAR(Average("a"), 2, 0.01);
  SetHalfLife(2 * kHalfLife);
  EXPECT_NEAR(Average("a"), 2, 0.01) << "what is counted stays counted";
  Pass(2 * kHalfLife);
  EXPECT_NEAR(Average("a"), 3, 0.01);
  SetHalfLife(absl::ZeroDuration());
  EXPECT_EQ(Stored("a"), "");
  EXPECT_EQ(Stored("team"), "");
}

TEST_F(SchedulerCoreUsageTest, OneTakenAwayIsForgottenAtOnce) {
  CreateQueues(kHalfLife);
  Use("a", kHalfLife);
  AdvanceHeard(absl::Minutes(2));
  // Written in the same moment.
  RunJob("steady", In("a", 4));
  ASSERT_NE(Stored("a"), "");
  SetHalfLife(absl::ZeroDuration());
  EXPECT_EQ(Stored("a"), "");
  EXPECT_EQ(Stored("team"), "");
  EXPECT_EQ(Average("a"), 0);
  SetHalfLife(kHalfLife);
  AdvanceHeard(absl::Minutes(1));
  EXPECT_LT(Average("a"), 0.1) << "the past begins anew";
}

TEST_F(SchedulerCoreUsageTest, NothingIsWrittenWhileNoUseChanges) {
  CreateQueues(kHalfLife);
  RunJob("steady", In("a", 4));
  AdvanceHeard(absl::Minutes(2));
  const std::string stored = Stored("a");
  EXPECT_NE(stored, "");
  Pass(absl::Hours(3));
  EXPECT_EQ(Stored("a"), stored);
  EXPECT_NEAR(Average("a"), 3.5, 0.05) << "it follows from what was written";
}

TEST_F(SchedulerCoreUsageTest, IsWrittenAtMostOnceAMinuteAndWithinOneOfAChange) {
  CreateQueues(kHalfLife);
  std::string stored = Stored("a");
  int writes = 0;
  const auto look = [&] {
    if (Stored("a") == stored) return;
    stored = Stored("a");
    ++writes;
  };
  for (int i = 0; i < 100; ++i) {
    const std::string id = absl::StrCat("short", i);
    RunJob(id, In("a", 2));
    look();
    AdvanceHeard(absl::Seconds(3));
    EndJob(id, 2);
    look();
    AdvanceHeard(absl::Seconds(3));
    look();
  }
  // 200 changes in ten minutes.
  EXPECT_GE(writes, 9);
  EXPECT_LE(writes, 11);
  AdvanceHeard(absl::Minutes(1));
  look();
  const std::string last = stored;
  rec::QueueUsageRecord record;
  ASSERT_TRUE(record.ParseFromString(last));
  for (const auto& amount : record.amounts()) EXPECT_EQ(amount.used(), 0) << amount.resource();
  AdvanceHeard(absl::Minutes(10));
  EXPECT_EQ(Stored("a"), last);
}

TEST_F(SchedulerCoreUsageTest, ANewLeaderKnowsWhatTheOneBeforeKnew) {
  CreateQueues(kHalfLife);
  Use("a", kHalfLife);
  RunJob("goes-on", In("b", 1));
  AdvanceHeard(absl::Minutes(3));
  const double a = Average("a"), b = Average("b");
  const std::map<std::string, std::string> records = harness_.records();
  executor_.Disconnect();
  harness_.NewLeader();
  EXPECT_EQ(harness_.records(), records) << "nothing to write, nothing lost";
  executor_.Connect();
  EXPECT_EQ(Average("a"), a);
  EXPECT_EQ(Average("b"), b);
  EndJob("goes-on", 1);
  EXPECT_EQ(First(), "b") << "by what the leader before had counted";
}

TEST_F(SchedulerCoreUsageTest, ACrashCountsAtMostAMinuteWrongly) {
  CreateQueues(kHalfLife);
  RunJob("first", In("a", 4));
  AdvanceHeard(absl::Seconds(30));
  // Less than a minute after it was written: not stored when the leader dies.
  EndJob("first", 4);
  const std::string stored = Stored("a");
  rec::QueueUsageRecord record;
  ASSERT_TRUE(record.ParseFromString(stored));
  ASSERT_EQ(record.amounts(0).used(), 4000);
  executor_.Disconnect();
  // Nobody leads for two hours.
  harness_.Sleep(absl::Hours(2));
  harness_.NewLeader();
  executor_.Connect();
  AdvanceHeard(absl::Minutes(2));
  EXPECT_NE(Stored("a"), stored);
  ASSERT_TRUE(record.ParseFromString(Stored("a")));
  for (const auto& amount : record.amounts()) EXPECT_EQ(amount.used(), 0) << amount.resource();
  // Four cores for half a minute would be 0.02 at the end, and for two hours three.
  EXPECT_LE(Average("a"), 4 * 0.0116) << "at most a minute of four cores";
}

TEST_F(SchedulerCoreUsageTest, WhatWasUsedIsWrittenBeforeWhatChangesIt) {
  CreateQueues(kHalfLife);
  CreateJob create;
  create.call = harness_.next_call();
  create.project = "projects/p";
  create.job_id = create.uid = "never";
  create.spec = In("a", 4);
  // The step places it; the first of its writes is what `a` and `team` use.
  harness_.CrashIn(create, 1);
  executor_.Disconnect();
  executor_.Connect();
  EXPECT_EQ(harness_.jobs().count("never"), 0u);
  EXPECT_NE(Stored("a"), "");
  AdvanceHeard(absl::Minutes(2));
  EXPECT_EQ(Stored("a"), "") << "a use that did not come to be is not counted";
  EXPECT_EQ(Stored("team"), "");
}

TEST_F(SchedulerCoreUsageTest, AClockThatStepsBackStopsTheCountAndNotTheWrites) {
  CreateQueues(kHalfLife);
  Use("a", kHalfLife);
  const double before = Average("a");
  harness_.StepWallClock(-absl::Minutes(30));
  Use("a", absl::Minutes(20));
  EXPECT_NEAR(Average("a"), before, 0.2) << "those minutes were counted before";
  Use("a", absl::Minutes(30));
  EXPECT_GT(Average("a"), before + 0.5);
}

TEST_F(SchedulerCoreUsageTest, AnotherAcceleratorAndAnotherQueueMoveNothing) {
  CreateQueues(kHalfLife);
  Use("a", kHalfLife);
  AdvanceHeard(absl::Minutes(2));
  const double a = Average("a");
  Queue below;
  below.set_parent("queues/team");
  auto& quota = *below.add_quotas();
  // Before `cpu` in the order of names, as the Queue is before `a`.
  quota.set_resource("amd.com/mi300");
  quota.set_guarantee(0);
  Create("a-before", below);
  EXPECT_EQ(Average("a"), a);
  EXPECT_EQ(First(), "b");
  executor_.Disconnect();
  harness_.NewLeader();
  executor_.Connect();
  EXPECT_EQ(First(), "b");
}

}  // namespace
}  // namespace capstan::scheduler
