#include "services/executor/core/executor_core.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"
#include "services/executor/core/executor_bench.h"

namespace capstan::executor {
namespace {

const TaskId kA{"job", 1, "w", 0};
const TaskId kB{"job", 1, "w", 1};

TEST(ExecutorCoreTest, SaysHelloThenReportsEverythingThenRenews) {
  Bench bench;
  const auto sent = Of<SendUp>(bench.Apply(UpConnected{1}));
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].message.hello().cluster(), "c1");
  EXPECT_NE(sent[0].message.hello().incarnation(), 0);
  EXPECT_TRUE(sent[1].message.observations().sync_complete());
  EXPECT_TRUE(sent[2].message.has_renewal());
}

TEST(ExecutorCoreTest, RefusesALowerTokenAlsoAfterARestart) {
  Bench bench;
  bench.Apply(UpConnected{1});
  bench.Desire(1, 5, {}, true);
  bench.Restart();
  bench.Apply(UpConnected{2});
  const auto effects = bench.Desire(2, 4, {Want(kA, "n1", DesiredTask::PHASE_PREPARE)}, false);
  EXPECT_EQ(Of<CloseUp>(effects).size(), 1u);
  EXPECT_TRUE(HasAlarm(effects, "LOWER_TOKEN"));
  EXPECT_EQ(bench.core_->tasks().Find(kA), nullptr);
  EXPECT_FALSE(bench.core_->up_connected());
}

TEST(ExecutorCoreTest, KeepsTheGrantOfAnOrderThatComesAgainNewlySigned) {
  const auto granted = [](absl::Time signed_at) {
    capstan::type::v1::Placement placement;
    *placement.mutable_sign_time() = capstan::ToProto(signed_at);
    DesiredTask task = Want(kA, "n1", DesiredTask::PHASE_PREPARE);
    task.mutable_grant()->set_placement(placement.SerializeAsString());
    return task;
  };
  const absl::Time then = absl::FromUnixSeconds(1'800'000'000);
  Bench bench;
  bench.Apply(UpConnected{1});
  bench.Desire(1, 5, {Want(kA, "n1", DesiredTask::PHASE_PREPARE)}, true);
  // From a scheduler of the version before, then from one of this.
  bench.Desire(1, 5, {granted(then)}, true);
  const auto kept = [&bench] {
    return bench.core_->tasks().Find(kA)->desired->grant().placement();
  };
  EXPECT_EQ(kept(), granted(then).grant().placement());
  bench.Desire(1, 5, {granted(then + absl::Hours(1))}, true);
  EXPECT_EQ(kept(), granted(then).grant().placement());
  bench.Restart();
  EXPECT_EQ(kept(), granted(then).grant().placement());
  bench.Apply(UpConnected{2});
  bench.Desire(2, 5, {granted(then + absl::Hours(24 * 31))}, true);
  EXPECT_EQ(kept(), granted(then + absl::Hours(24 * 31)).grant().placement());
}

TEST(ExecutorCoreTest, AnswersNoAgentBeforeARenewalOfThisLifeWasAnswered) {
  Bench bench;
  bench.Apply(UpConnected{1});
  bench.ConnectAgent(10, "n1");
  EXPECT_EQ(AgeIn(bench.RenewAgent(10)), absl::nullopt);
  bench.Advance(absl::Seconds(2));
  bench.AnswerRenewal(1, 1, 5);
  bench.Acknowledge(1, bench.core_->nodes().at("n1").record.sequence(), {"n1"});
  bench.Advance(absl::Seconds(1));
  // Sent three seconds ago, answered one second ago: the former counts.
  EXPECT_EQ(AgeIn(bench.RenewAgent(10)), absl::Seconds(3));
  bench.Restart();
  bench.Apply(UpConnected{2});
  bench.ConnectAgent(11, "n1");
  EXPECT_EQ(AgeIn(bench.RenewAgent(11)), absl::nullopt);
}

// As after the executor's store was lost: the scheduler counts the Node as silent meanwhile.
TEST(ExecutorCoreTest, UnknownNodeIsRenewedOnlyAfterItsFirstReportIsAcknowledged) {
  Bench bench;
  bench.Apply(UpConnected{1});
  bench.AnswerRenewal(1, 1, 5);
  bench.ConnectAgent(10, "n1");
  EXPECT_EQ(AgeIn(bench.RenewAgent(10)), absl::nullopt);
  bench.Restart();
  bench.Apply(UpConnected{2});
  bench.AnswerRenewal(2, 1, 5);
  bench.ConnectAgent(11, "n1");
  EXPECT_EQ(AgeIn(bench.RenewAgent(11)), absl::nullopt);
  bench.Acknowledge(2, bench.core_->nodes().at("n1").record.sequence(), {"n1"});
  EXPECT_TRUE(AgeIn(bench.RenewAgent(11)).has_value());
}

TEST(ExecutorCoreTest, SilentNodeIsRenewedOnlyAfterItsReturnIsAcknowledged) {
  Bench bench;
  bench.Apply(UpConnected{1});
  bench.AnswerRenewal(1, 1, 5);
  bench.ConnectAgent(10, "n1");
  bench.Advance(absl::Seconds(15));
  auto effects = bench.Apply(Tick{});
  EXPECT_TRUE(HasAlarm(effects, "NODE_SILENT"));
  const auto reports = Of<SendUp>(effects);
  ASSERT_FALSE(reports.empty());
  const int64_t silent_sequence = bench.core_->nodes().at("n1").record.sequence();
  EXPECT_EQ(AgeIn(bench.RenewAgent(10)), absl::nullopt);
  EXPECT_FALSE(bench.core_->nodes().at("n1").silent());
  // An acknowledgement of what came before the return does not count.
  bench.Acknowledge(1, silent_sequence, {"n1"});
  EXPECT_EQ(AgeIn(bench.RenewAgent(10)), absl::nullopt);
  bench.Restart();
  bench.Apply(UpConnected{2});
  bench.AnswerRenewal(2, 1, 5);
  bench.ConnectAgent(11, "n1");
  EXPECT_EQ(AgeIn(bench.RenewAgent(11)), absl::nullopt);
  bench.Acknowledge(2, silent_sequence + 1, {"n1"});
  EXPECT_TRUE(AgeIn(bench.RenewAgent(11)).has_value());
}

TEST(ExecutorCoreTest, OwnPauseSilencesNoNode) {
  Bench bench;
  bench.ConnectAgent(10, "n1");
  bench.Advance(absl::Minutes(10));
  EXPECT_FALSE(HasAlarm(bench.Apply(Tick{}), "NODE_SILENT"));
  bench.Advance(absl::Seconds(6));
  EXPECT_TRUE(HasAlarm(bench.Apply(Tick{}), "NODE_SILENT"));
}

TEST(ExecutorCoreTest, AgentsHearSyncCompleteOnlyAfterTheScheduler) {
  Bench bench;
  const auto before = Of<SendAgent>(bench.ConnectAgent(10, "n1"));
  ASSERT_EQ(before.size(), 1u);
  EXPECT_TRUE(before[0].message.desired().snapshot());
  EXPECT_FALSE(before[0].message.desired().sync_complete());
  bench.Apply(UpConnected{1});
  const auto after =
      Of<SendAgent>(bench.Desire(1, 5, {Want(kA, "n1", DesiredTask::PHASE_PREPARE)}, true));
  ASSERT_EQ(after.size(), 1u);
  EXPECT_TRUE(after[0].message.desired().sync_complete());
  EXPECT_EQ(after[0].message.desired().tasks(0).unix_uid(), bench.core_->tasks().Uid("job"));
}

TEST(ExecutorCoreTest, BreakerKeepsWhatTheSchedulerNoLongerNames) {
  for (const int count : {10, 11}) {
    Bench bench;
    bench.Apply(UpConnected{1});
    std::vector<DesiredTask> tasks;
    for (int i = 0; i < count; ++i) {
      tasks.push_back(Want(TaskId{"job", 1, "w", i}, "n1", DesiredTask::PHASE_START));
    }
    bench.Desire(1, 5, tasks, true);
    bench.Apply(UpDisconnected{1});
    bench.Apply(UpConnected{2});
    const auto effects = bench.Desire(2, 5, {}, true);
    EXPECT_EQ(HasAlarm(effects, "BREAKER_TRIPPED"), count > 10);
    EXPECT_EQ(bench.core_->tasks().Find(kA)->observed.forgotten(), count <= 10);
  }
}

TEST(ExecutorCoreTest, ForgottenTaskIsStoppedEndedRemovedAndOnlyThenFreesItsUid) {
  Bench bench;
  bench.Apply(UpConnected{1});
  bench.ConnectAgent(10, "n1");
  bench.Desire(1, 5, {Want(kA, "n1", DesiredTask::PHASE_START)}, true);
  bench.Report(10, {Saw(kA, TaskObservation::STATE_RUNNING)});
  auto sent = Of<SendAgent>(bench.Desire(1, 5, {}, false, {kA}));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].message.desired().tasks(0).phase(), DesiredTask::PHASE_STOP);
  sent = Of<SendAgent>(bench.Report(10, {Saw(kA, TaskObservation::STATE_ENDED)}));
  ASSERT_EQ(sent.size(), 2u);
  const auto& told = sent[0].message.has_desired() ? sent[0] : sent[1];
  EXPECT_EQ(told.message.desired().forgotten_size(), 1);
  EXPECT_NE(bench.core_->tasks().Uid("job"), 0);
  bench.Report(10, {}, {kA});
  EXPECT_EQ(bench.core_->tasks().Find(kA), nullptr);
  EXPECT_EQ(bench.core_->tasks().Uid("job"), 0);
}

TEST(ExecutorCoreTest, JobsShareNoUidAndRunOutOfThem) {
  Bench bench;
  bench.Apply(UpConnected{1});
  std::set<int64_t> uids;
  for (int job = 0; job < 4; ++job) {
    const TaskId id{absl::StrCat("job", job), 1, "w", 0};
    bench.Desire(1, 5, {Want(id, "n1", DesiredTask::PHASE_PREPARE)}, false);
    uids.insert(bench.core_->tasks().Uid(id.job_uid));
  }
  EXPECT_EQ(uids, (std::set<int64_t>{100, 101, 102, 103}));
  const TaskId late{"job9", 1, "w", 0};
  const auto effects = bench.Desire(1, 5, {Want(late, "n1", DesiredTask::PHASE_PREPARE)}, false);
  EXPECT_TRUE(HasAlarm(effects, "UIDS_EXHAUSTED"));
  EXPECT_EQ(bench.core_->tasks().Find(late)->observed.observation().end().cause(),
            TaskEnd::CAUSE_PREPARE_FAILED);
}

TEST(ExecutorCoreTest, AgentThatLostItsStoreLosesItsTasksAndIsToldToBeginNone) {
  Bench bench;
  bench.Apply(UpConnected{1});
  bench.ConnectAgent(10, "n1");
  bench.Desire(1, 5, {Want(kA, "n1", DesiredTask::PHASE_START)}, true);
  bench.Report(10, {Saw(kA, TaskObservation::STATE_RUNNING)});
  bench.Apply(AgentDisconnected{10});
  bench.ConnectAgent(11, "n1");
  EXPECT_EQ(bench.core_->tasks().Find(kA)->observed.observation().end().cause(),
            TaskEnd::CAUSE_LOST);
  bench.Apply(AgentDisconnected{11});
  const auto sent = Of<SendAgent>(bench.ConnectAgent(12, "n1"));
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent[0].message.desired().tasks(0).phase(), DesiredTask::PHASE_STOP);
}

TEST(ExecutorCoreTest, SecondSessionOfANodeEndsTheFirst) {
  Bench bench;
  bench.ConnectAgent(10, "n1");
  bench.Apply(AgentConnected{11, "n1"});
  AgentMessage hello{11, {}};
  hello.message.mutable_hello()->set_cluster("c1");
  hello.message.mutable_hello()->set_node("n1");
  const auto closed = Of<CloseAgent>(bench.Apply(hello));
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_EQ(closed[0].session, 10u);
  EXPECT_TRUE(absl::IsAborted(closed[0].status));
}

TEST(ExecutorCoreTest, ANodeHasOneSessionThatHasNotSaidHello) {
  Bench bench;
  bench.ConnectAgent(10, "n1");
  EXPECT_TRUE(Of<CloseAgent>(bench.Apply(AgentConnected{11, "n1"})).empty());
  // Another Node's are its own.
  EXPECT_TRUE(Of<CloseAgent>(bench.Apply(AgentConnected{12, "n2"})).empty());
  for (SessionId session = 13; session < 16; ++session) {
    const auto closed = Of<CloseAgent>(bench.Apply(AgentConnected{session, "n1"}));
    ASSERT_EQ(closed.size(), 1u);
    EXPECT_EQ(closed[0].session, session == 13 ? 11u : session - 1);
    EXPECT_TRUE(absl::IsAborted(closed[0].status));
  }
  // The one that has said hello goes on, and the last of the others may say it; one that is over
  // keeps no place.
  EXPECT_EQ(Of<SendAgent>(bench.Report(10, {})).size(), 1u);
  bench.Apply(AgentDisconnected{15});
  EXPECT_TRUE(Of<CloseAgent>(bench.Apply(AgentConnected{16, "n1"})).empty());
  AgentMessage hello{16, {}};
  hello.message.mutable_hello()->set_cluster("c1");
  hello.message.mutable_hello()->set_node("n1");
  const auto closed = Of<CloseAgent>(bench.Apply(hello));
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_EQ(closed[0].session, 10u);
  EXPECT_TRUE(Of<CloseAgent>(bench.Apply(AgentConnected{17, "n1"})).empty());
}

TEST(ExecutorCoreTest, AgentThatKnowsALaterLeaderIsTurnedAway) {
  Bench bench;
  bench.Apply(AgentConnected{10, "n1"});
  AgentMessage hello{10, {}};
  hello.message.mutable_hello()->set_cluster("c1");
  hello.message.mutable_hello()->set_node("n1");
  *hello.message.mutable_hello()->mutable_highest_token() = Token(7);
  const auto closed = Of<CloseAgent>(bench.Apply(hello));
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(closed[0].status));
}

TEST(ExecutorCoreTest, JournalHoldsOneEntryATaskAndIsEmptiedByAcknowledgement) {
  Bench bench;
  bench.Apply(UpConnected{1});
  bench.ConnectAgent(10, "n1");
  bench.Desire(1, 5, {Want(kA, "n1", DesiredTask::PHASE_PREPARE)}, true);
  for (int i = 0; i < 50; ++i) {
    TaskObservation task = Saw(kA, TaskObservation::STATE_PREPARING);
    task.set_progress(absl::StrCat(i));
    bench.Report(10, {task});
  }
  EXPECT_EQ(bench.core_->unacknowledged(), 2u);
  bench.Acknowledge(1, 1000, {});
  EXPECT_EQ(bench.core_->unacknowledged(), 0u);
}

TEST(ExecutorCoreTest, OnlySoManyReportsAreUnderWayAndWhatChangesMeanwhileIsSentOnce) {
  Bench bench;
  bench.Apply(UpConnected{1});
  bench.ConnectAgent(10, "n1");
  bench.Desire(1, 5, {Want(kA, "n1", DesiredTask::PHASE_PREPARE)}, true);
  bench.Acknowledge(1, bench.core_->nodes().at("n1").record.sequence(), {"n1"});
  const auto report = [&bench](int number) {
    TaskObservation task = Saw(kA, TaskObservation::STATE_PREPARING);
    task.set_progress(absl::StrCat(number));
    return Of<SendUp>(bench.Report(10, {task}));
  };
  int64_t first = 0;
  for (int i = 1; i <= 64; ++i) {
    const std::vector<SendUp> sent = report(i);
    ASSERT_EQ(sent.size(), 1u) << i;
    if (i == 1) first = sent[0].message.observations().journal_sequence();
  }
  for (int i = 65; i <= 200; ++i) EXPECT_TRUE(report(i).empty()) << i;
  const auto sent = Of<SendUp>(bench.Acknowledge(1, first, {}));
  ASSERT_EQ(sent.size(), 1u);
  ASSERT_EQ(sent[0].message.observations().tasks_size(), 1);
  EXPECT_EQ(sent[0].message.observations().tasks(0).progress(), "200");
  EXPECT_TRUE(report(201).empty());
  // Another session begins with what is known now, and with nothing under way.
  bench.Apply(UpDisconnected{1});
  bench.Apply(UpConnected{2});
  EXPECT_EQ(report(202).size(), 1u);
}

}  // namespace
}  // namespace capstan::executor
