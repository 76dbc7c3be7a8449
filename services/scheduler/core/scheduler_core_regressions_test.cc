// What went wrong in other schedulers, done to this one. Each test names the report it is made
// after; numbers are those of the report where there are any.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_harness.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::DesiredTask;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskObservation;

class SchedulerCoreRegressionsTest : public ::testing::Test {
 protected:
  static CoreConfig Config() {
    CoreConfig config;
    config.min_fence_after = absl::Seconds(1);
    return config;
  }
  static JobSpec Spec(int replicas, int priority = 0, const std::string& queue = "default") {
    JobSpec spec = CoreHarness::Spec(replicas, 1000);
    spec.set_priority(priority);
    spec.set_queue(absl::StrCat("queues/", queue));
    return spec;
  }
  void Submit(const std::string& id, const JobSpec& spec) {
    harness_.Deliver(harness_.Submit(id, spec));
  }
  void CreateQueue(const std::string& id, bool hold = false) {
    scheduler::CreateQueue create;
    create.call = harness_.next_call();
    create.queue_id = create.uid = id;
    create.queue.set_hold(hold);
    harness_.Deliver(harness_.Apply(create));
  }
  void Release(const std::string& id) {
    UpdateQueue update;
    update.call = harness_.next_call();
    update.queue_id = id;
    update.update_mask.add_paths("hold");
    harness_.Deliver(harness_.Apply(update));
  }
  // Time passes, and everything that is asked of the executors is done.
  void Run(absl::Duration d) {
    for (const BootTime end = harness_.now().boot + d; harness_.now().boot < end;) {
      for (FakeExecutor* executor : harness_.executors()) executor->Renew();
      harness_.Deliver(harness_.Advance(absl::Seconds(1)));
      Work();
    }
  }
  void Work() {
    for (FakeExecutor* executor : harness_.executors()) {
      executor->PrepareAll();
      executor->RunAll();
    }
  }
  Job::State StateOf(const std::string& uid) const { return harness_.job(uid).state.state(); }
  std::string ReasonOf(const std::string& uid) const { return harness_.job(uid).state.reason(); }
  std::set<std::string> In(Job::State state) const {
    std::set<std::string> uids;
    for (const auto& [uid, job] : harness_.jobs()) {
      if (job.state.state() == state) uids.insert(uid);
    }
    return uids;
  }

  CoreHarness harness_{Config()};
};

// Volcano #5984: one Pod had to go for a preemptor of one core, and gangpreempt evicted ten: it
// took the victims of a node by bundles, and never left out of the last one what was not needed.
TEST_F(SchedulerCoreRegressionsTest, Volcano5984OneVictimWhereOneSuffices) {
  FakeExecutor executor("local", 1, 11'000, &harness_);
  executor.Connect();
  for (int i = 0; i < 11; ++i) Submit(absl::StrCat("victim", i), Spec(1, 10));
  Run(absl::Minutes(6));
  ASSERT_EQ(In(Job::STATE_RUNNING).size(), 11u);
  Submit("preemptor", Spec(1, 100));
  Run(absl::Seconds(5));
  EXPECT_EQ(StateOf("preemptor"), Job::STATE_RUNNING);
  int preemptions = 0;
  for (const auto& [uid, job] : harness_.jobs()) preemptions += job.state.preemptions();
  EXPECT_EQ(preemptions, 1);
  EXPECT_EQ(In(Job::STATE_RUNNING).size(), 11u);
}

// The same with what is free counted first: of three Tasks two fit as it is.
TEST_F(SchedulerCoreRegressionsTest, Volcano5984OneVictimBesideWhatIsFree) {
  FakeExecutor executor("local", 6, 2000, &harness_);
  executor.Connect();
  for (int i = 0; i < 10; ++i) Submit(absl::StrCat("victim", i), Spec(1, 10));
  Run(absl::Minutes(6));
  Submit("preemptor", Spec(3, 100));
  Run(absl::Seconds(5));
  EXPECT_EQ(StateOf("preemptor"), Job::STATE_RUNNING);
  int preemptions = 0;
  for (const auto& [uid, job] : harness_.jobs()) preemptions += job.state.preemptions();
  EXPECT_EQ(preemptions, 1);
}

// Volcano #5805: a gang that lost a member with its node was below minAvailable for ever: after the
// repair the order by shares put it behind every fresh Job, each of which took the room first. Here
// the other Queue has the better claim, never stops submitting, and what is broken comes back late.
TEST_F(SchedulerCoreRegressionsTest, Volcano5805AGangThatLostATaskHealsAlthoughFreshJobsCome) {
  FakeExecutor executor("local", 2, 4000, &harness_);
  executor.Connect();
  CreateQueue("fresh");
  Submit("gang", Spec(8));
  Work();
  ASSERT_EQ(StateOf("gang"), Job::STATE_RUNNING);
  int fresh = 0;
  const auto submit_fresh = [&] {
    JobSpec spec = Spec(1, 0, "fresh");
    *spec.mutable_time_limit() = ToProto(absl::Minutes(2));
    *spec.mutable_stop_grace() = ToProto(absl::Seconds(1));
    Submit(absl::StrCat("fresh", fresh++), spec);
  };
  while (fresh < 12) submit_fresh();
  harness_.Apply(CordonNode{harness_.next_call(), "local", "n1", "test", ""});
  executor.End("gang/1/worker-7", TaskEnd::CAUSE_LOST);
  for (int i = 0; i < 12; ++i) {
    submit_fresh();
    Run(absl::Seconds(10));
  }
  EXPECT_EQ(StateOf("gang"), Job::STATE_QUEUED);
  EXPECT_TRUE(In(Job::STATE_RUNNING).empty());
  harness_.Deliver(harness_.Apply(UncordonNode{harness_.next_call(), "local", "n1", "test"}));
  Work();
  EXPECT_EQ(In(Job::STATE_RUNNING), std::set<std::string>{"gang"});
  EXPECT_EQ(harness_.job("gang").state.generation(), 2);
}

// It is not healed in time: the room is theirs by right, since they have nothing, and the gang
// would have had all. As soon as those that run have ended it starts all the same.
TEST_F(SchedulerCoreRegressionsTest, Volcano5805AGangThatWaitsForLongHealsAlthoughFreshJobsCome) {
  FakeExecutor executor("local", 2, 4000, &harness_);
  executor.Connect();
  CreateQueue("fresh");
  Submit("gang", Spec(8));
  Work();
  int fresh = 0;
  const auto submit_fresh = [&] {
    JobSpec spec = Spec(1, 0, "fresh");
    *spec.mutable_time_limit() = ToProto(absl::Minutes(2));
    *spec.mutable_stop_grace() = ToProto(absl::Seconds(1));
    Submit(absl::StrCat("fresh", fresh++), spec);
  };
  harness_.Apply(CordonNode{harness_.next_call(), "local", "n1", "test", ""});
  executor.End("gang/1/worker-7", TaskEnd::CAUSE_LOST);
  Run(absl::Minutes(6));
  while (fresh < 12) submit_fresh();
  Work();
  EXPECT_EQ(In(Job::STATE_RUNNING).size(), 4u);
  harness_.Deliver(harness_.Apply(UncordonNode{harness_.next_call(), "local", "n1", "test"}));
  Work();
  EXPECT_EQ(In(Job::STATE_RUNNING).size(), 8u);
  EXPECT_EQ(StateOf("gang"), Job::STATE_QUEUED);
  const BootTime repaired = harness_.now().boot;
  while (StateOf("gang") != Job::STATE_RUNNING &&
         harness_.now().boot < repaired + absl::Minutes(20)) {
    submit_fresh();
    Run(absl::Seconds(10));
  }
  EXPECT_EQ(StateOf("gang"), Job::STATE_RUNNING);
  EXPECT_EQ(harness_.job("gang").state.generation(), 2);
  // As soon as those that ran had ended: none that came later stood in its way.
  EXPECT_LE(harness_.now().boot - repaired, absl::Minutes(4));
}

// The same within one Queue: the gang keeps its place in the order, and while it is ended what it
// had is not given away piece by piece to those behind it.
TEST_F(SchedulerCoreRegressionsTest, Volcano5805ADamagedGangGoesBeforeWhatCameLater) {
  FakeExecutor executor("local", 2, 4000, &harness_);
  executor.Connect();
  Submit("gang", Spec(8));
  Work();
  for (int i = 0; i < 12; ++i) Submit(absl::StrCat("fresh", i), Spec(1));
  executor.End("gang/1/worker-3", TaskEnd::CAUSE_LOST);
  Run(absl::Seconds(5));
  EXPECT_EQ(In(Job::STATE_RUNNING), std::set<std::string>{"gang"});
  EXPECT_EQ(harness_.job("gang").state.generation(), 2);
}

// What is kept is kept no longer than until the gang may come back: one that waits before its next
// try holds nothing meanwhile, and one of higher priority goes first.
TEST_F(SchedulerCoreRegressionsTest, Volcano5805WhatIsKeptForAGangIsNotKeptForEver) {
  FakeExecutor executor("local", 2, 4000, &harness_);
  executor.Connect();
  Submit("gang", Spec(8));
  Work();
  Submit("fresh", Spec(1));
  executor.End("gang/1/worker-3", TaskEnd::CAUSE_EXITED, 1);
  Work();
  EXPECT_EQ(In(Job::STATE_RUNNING), std::set<std::string>{"fresh"});
  EXPECT_EQ(ReasonOf("gang"), "BACK_OFF");
  harness_.Deliver(harness_.Apply(CancelJob{harness_.next_call(), "projects/p/jobs/fresh", ""}));
  Run(absl::Seconds(5));
  ASSERT_EQ(StateOf("gang"), Job::STATE_RUNNING);
  Submit("urgent", Spec(1, 10));
  executor.End("gang/2/worker-3", TaskEnd::CAUSE_LOST);
  Run(absl::Seconds(5));
  EXPECT_EQ(StateOf("urgent"), Job::STATE_RUNNING);
}

// Nor where the end of one of its Tasks may be a quarter of an hour away.
TEST_F(SchedulerCoreRegressionsTest, Volcano5805NothingIsKeptWhileANodeIsSilent) {
  FakeExecutor executor("local", 2, 4000, &harness_);
  executor.Connect();
  Submit("gang", Spec(8));
  Work();
  Submit("fresh", Spec(1));
  executor.ReportNode(1, /*silent=*/true);
  for (const std::string& key : executor.Keys()) {
    if (executor.hears(executor.tasks().at(key).desired.node())) {
      executor.End(key, TaskEnd::CAUSE_LOST);
      break;
    }
  }
  Run(absl::Seconds(5));
  EXPECT_EQ(StateOf("gang"), Job::STATE_STOPPING);
  EXPECT_EQ(StateOf("fresh"), Job::STATE_RUNNING);
}

// KAI-Scheduler #2075: a pod whose bind an admission webhook always refused won every cycle, and
// nothing else was ever bound to the node. Here it outranks the others and wants the whole fleet.
TEST_F(SchedulerCoreRegressionsTest, Kai2075WhatCannotBeCarriedOutDoesNotStarveOthers) {
  FakeExecutor executor("local", 2, 4000, &harness_);
  executor.Connect();
  Submit("poison", Spec(8, 100));
  for (int i = 0; i < 8; ++i) Submit(absl::StrCat("good", i), Spec(1));
  // Each of its tries fails before it starts.
  const auto refuse = [&] {
    for (const std::string& key : executor.Keys()) {
      auto task = executor.tasks().find(key);
      if (task == executor.tasks().end() || task->second.desired.key().job_uid() != "poison" ||
          task->second.observed.state() == TaskObservation::STATE_ENDED) {
        continue;
      }
      executor.End(key, TaskEnd::CAUSE_PREPARE_FAILED);
    }
  };
  absl::Duration waited;
  for (; In(Job::STATE_RUNNING).size() < 8 && waited < absl::Minutes(5);
       waited += absl::Seconds(1)) {
    refuse();
    Run(absl::Seconds(1));
  }
  EXPECT_EQ(In(Job::STATE_RUNNING).size(), 8u);
  EXPECT_EQ(In(Job::STATE_RUNNING).count("poison"), 0u);
  // In its first back-off, and not when it has at last failed for good.
  EXPECT_LE(waited, absl::Seconds(5));
  EXPECT_NE(StateOf("poison"), Job::STATE_FAILED);
  // It ends others only where it is entitled to, and when its tries are used up, that is over.
  for (int i = 0; i < 20 * 60 && StateOf("poison") != Job::STATE_FAILED; ++i) {
    refuse();
    Run(absl::Seconds(1));
  }
  EXPECT_EQ(StateOf("poison"), Job::STATE_FAILED);
  Run(absl::Seconds(5));
  EXPECT_EQ(In(Job::STATE_RUNNING).size(), 8u);
}

// The same with Jobs that nobody can ever place: each round they came first, and with a few of them
// no room was kept for whoever came behind.
TEST_F(SchedulerCoreRegressionsTest, Kai2075WhatCanNeverStartDoesNotKeepRoomFromOthers) {
  FakeExecutor executor("local", 2, 4000, &harness_);
  executor.Connect();
  for (int i = 0; i < 10; ++i) {
    JobSpec spec = Spec(1, 1);
    spec.mutable_task_groups(0)->mutable_resources()->set_cpu_millis(4001 + i);
    Submit(absl::StrCat("never", i), spec);
  }
  int small = 0;
  const auto submit_small = [&] {
    JobSpec spec = Spec(1);
    *spec.mutable_time_limit() = ToProto(absl::Minutes(2));
    Submit(absl::StrCat("small", small++), spec);
  };
  // So that they do not end together.
  while (small < 8) {
    submit_small();
    Run(absl::Seconds(15));
  }
  Submit("wider", Spec(8));
  Submit("wide", Spec(8));
  harness_.Deliver(harness_.Apply(CancelJob{harness_.next_call(), "projects/p/jobs/wider", ""}));
  const BootTime submitted = harness_.now().boot;
  while (StateOf("wide") != Job::STATE_RUNNING &&
         harness_.now().boot < submitted + absl::Minutes(20)) {
    submit_small();
    Run(absl::Seconds(10));
  }
  EXPECT_EQ(StateOf("wide"), Job::STATE_RUNNING);
  EXPECT_LE(harness_.now().boot - submitted, absl::Minutes(4));
}

// Kueue #14477: one workload was popped per queue and cycle, most of which could not start, so that
// at depth 536 half of all waited for more than an hour. Here none but the last can, all of them
// for another reason; and no time passes until it does.
TEST_F(SchedulerCoreRegressionsTest, Kueue14477TheDepthOfAQueueIsNobodysWait) {
  constexpr int kDepth = 536;
  harness_.set_compare_every(100);
  FakeExecutor executor("local", 2, 4000, &harness_);
  executor.Connect();
  CreateQueue("deep", /*hold=*/true);
  for (int i = 0; i < kDepth; ++i) {
    JobSpec spec = Spec(1, 0, "deep");
    spec.mutable_task_groups(0)->mutable_resources()->set_cpu_millis(4001 + i);
    Submit(absl::StrCat("blocked", i), spec);
  }
  Submit("last", Spec(1, -1, "deep"));
  EXPECT_EQ(ReasonOf("last"), "QUEUE_HELD");
  const Now released = harness_.now();
  Release("deep");
  harness_.Deliver(harness_.Advance(absl::ZeroDuration()));
  EXPECT_EQ(harness_.now().boot, released.boot);
  EXPECT_EQ(StateOf("last"), Job::STATE_PREPARING);
  EXPECT_EQ(In(Job::STATE_QUEUED).size(), size_t{kDepth});
  // The next one is tried alone: what was tried in vain is not tried again for it.
  const std::vector<Effect> effects = harness_.Submit("later", Spec(1, -1, "deep"));
  EXPECT_EQ(StateOf("later"), Job::STATE_PREPARING);
  harness_.Deliver(effects);
}

// The same with Jobs that all fit, one behind the other.
TEST_F(SchedulerCoreRegressionsTest, Kueue14477AllThatFitsStartsAtOnce) {
  constexpr int kDepth = 536;
  harness_.set_compare_every(100);
  FakeExecutor executor("local", 1, 1000 * kDepth, &harness_);
  executor.Connect();
  CreateQueue("deep", /*hold=*/true);
  for (int i = 0; i < kDepth; ++i) {
    JobSpec spec = Spec(1, 0, "deep");
    spec.mutable_task_groups(0)->mutable_resources()->set_memory_bytes(1 << 20);
    Submit(absl::StrCat("job", i), spec);
  }
  Release("deep");
  harness_.Deliver(harness_.Advance(absl::ZeroDuration()));
  EXPECT_EQ(In(Job::STATE_PREPARING).size(), size_t{kDepth});
}

// Armada #4634: gangs had no generation. Pods of a gang that had been preempted were taken for
// those of its next try; "partially evicted: 2 out of 3 jobs evicted" then ended every cycle.
class Armada4634Test : public SchedulerCoreRegressionsTest {
 protected:
  // A gang of three is being ended for another Job; the end of its last Task is not yet reported.
  void PreemptSlowly() {
    executor_.Connect();
    Submit("gang", Spec(3));
    Submit("beside", Spec(1));
    Work();
    Run(absl::Minutes(6));
    ASSERT_EQ(StateOf("gang"), Job::STATE_RUNNING);
    ending_ = harness_.Submit("high", Spec(3, 10));
    ASSERT_EQ(StateOf("gang"), Job::STATE_STOPPING);
    Report("gang/1/worker-0", TaskObservation::STATE_ENDED);
    Report("gang/1/worker-1", TaskObservation::STATE_ENDED);
  }
  // The executor's word about one Task, whatever it may have said before.
  void Report(const std::string& key, TaskObservation::State state) {
    TaskObservation observed = executor_.tasks().at(key).observed;
    observed.set_state(state);
    observed.clear_end();
    if (state == TaskObservation::STATE_ENDED) {
      observed.mutable_end()->set_cause(TaskEnd::CAUSE_STOPPED);
    }
    Observe(observed);
  }
  void Observe(const TaskObservation& observed) {
    ObservationsReceived event;
    event.session = executor_.session();
    event.observations.set_journal_sequence(++sequence_);
    *event.observations.add_tasks() = observed;
    told_ = harness_.Apply(event);
  }
  // What the last report made the core ask of a Task.
  std::vector<DesiredTask> Asked(int64_t generation) const {
    std::vector<DesiredTask> asked;
    for (const SendDown& send : Of<SendDown>(told_)) {
      for (const DesiredTask& task : send.message.desired().tasks()) {
        if (task.key().job_uid() == "gang" && task.key().generation() == generation) {
          asked.push_back(task);
        }
      }
    }
    return asked;
  }

  FakeExecutor executor_{"local", 1, 4000, &harness_};
  std::vector<Effect> ending_;
  std::vector<Effect> told_;
  int64_t sequence_ = 1'000'000;
};

TEST_F(Armada4634Test, RoundsGoOnWhileAGangIsPartlyEnded) {
  PreemptSlowly();
  // What they had is kept for the other Job, and who does not get it is told so.
  harness_.Submit("late", Spec(1));
  EXPECT_EQ(harness_.job("late").state.message(),
            "what is free would hold it, but is kept for others or cannot be divided among its "
            "TaskGroups");
  // Two of three have ended, and a Job comes that would end it too: it is being ended already.
  harness_.Submit("higher", Spec(1, 20));
  ASSERT_EQ(harness_.job("higher").state.making_room_size(), 1);
  EXPECT_EQ(harness_.job("higher").state.making_room(0).job_uid(), "beside");
  EXPECT_EQ(harness_.job("gang").state.generation(), 1);
  Report("gang/1/worker-2", TaskObservation::STATE_ENDED);
  EXPECT_EQ(harness_.job("gang").state.preemptions(), 1);
  EXPECT_EQ(StateOf("gang"), Job::STATE_QUEUED);
}

TEST_F(Armada4634Test, WhatAnOlderGenerationReportsIsNotTheNewOnes) {
  PreemptSlowly();
  const TaskObservation old = executor_.tasks().at("gang/1/worker-0").observed;
  Report("gang/1/worker-2", TaskObservation::STATE_ENDED);
  ASSERT_EQ(StateOf("high"), Job::STATE_PREPARING);
  harness_.Deliver(ending_);
  harness_.Deliver(told_);
  const auto cancelled =
      harness_.Apply(CancelJob{harness_.next_call(), "projects/p/jobs/high", ""});
  harness_.Deliver(cancelled);
  Work();
  ASSERT_EQ(StateOf("gang"), Job::STATE_RUNNING);
  ASSERT_EQ(harness_.job("gang").state.generation(), 2);
  // A Pod of the first generation is seen running on the Node, though its end was reported; later
  // it ends again.
  Observe(old);
  const std::vector<DesiredTask> stray = Asked(1);
  ASSERT_EQ(stray.size(), 1u);
  EXPECT_EQ(stray[0].phase(), DesiredTask::PHASE_STOP);
  EXPECT_TRUE(Asked(2).empty());
  Report("gang/2/worker-1", TaskObservation::STATE_RUNNING);
  TaskObservation end = old;
  end.set_state(TaskObservation::STATE_ENDED);
  end.mutable_end()->set_cause(TaskEnd::CAUSE_LOST);
  Observe(end);
  EXPECT_EQ(StateOf("gang"), Job::STATE_RUNNING);
  EXPECT_EQ(harness_.job("gang").state.generation(), 2);
  EXPECT_EQ(harness_.job("gang").state.preemptions(), 1);
  for (const rec::TaskRecord& task : harness_.job("gang").gang->tasks) {
    EXPECT_EQ(task.state(), TaskObservation::STATE_RUNNING);
  }
  // And the next round ends all of the second generation, or nothing.
  Run(absl::Minutes(6));
  Submit("high2", Spec(2, 10));
  Run(absl::Seconds(5));
  EXPECT_EQ(StateOf("high2"), Job::STATE_RUNNING);
  EXPECT_EQ(In(Job::STATE_RUNNING).count("gang"), 0u);
  for (const auto& [key, task] : executor_.tasks()) {
    if (task.desired.key().job_uid() == "gang") {
      EXPECT_FALSE(task.running()) << key;
    }
  }
}

}  // namespace
}  // namespace capstan::scheduler
