#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/core_test_fixture.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Node;
using capstan::type::v1::DesiredTask;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskObservation;

using SchedulerCoreFencingTest = SchedulerCoreTest;

TEST_F(SchedulerCoreFencingTest, ASilentExecutorsGangRunsElsewhereOnlyAfterReplaceAfter) {
  FakeExecutor other("other", 2, 4000, &harness_);
  executor_.Connect();
  JobSpec spec = CoreHarness::Spec(2, 1000);
  *spec.mutable_fence_after() = ToProto(absl::Minutes(2));
  RunJob("a", spec);
  other.Connect();
  executor_.Renew();
  executor_.Disconnect();
  const absl::Duration replace_after = Config().ReplaceAfter(absl::Minutes(2));
  auto advance = [&](absl::Duration d) {
    for (; d > absl::ZeroDuration(); d -= absl::Seconds(3)) {
      other.Renew();
      other.Take(harness_.Advance(std::min(d, absl::Seconds(3))));
    }
  };
  advance(absl::Seconds(15));
  EXPECT_EQ(harness_.core().model().nodes.at({"local", "n0"}).state(), Node::STATE_SILENT);
  advance(replace_after - absl::Seconds(15) - absl::Milliseconds(1));
  EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
  EXPECT_TRUE(other.tasks().empty());
  advance(absl::Milliseconds(1));
  EXPECT_EQ(harness_.job("a").state.generation(), 2);
  EXPECT_EQ(harness_.job("a").gang->head.cluster(), "other");
  EXPECT_EQ(other.tasks().size(), 2u);
  EXPECT_EQ(harness_.job("a").state.counted_restarts(), 0);
  // The lost executor comes back: what it still names is stopped, its ends are forgotten.
  executor_.Connect();
  EXPECT_TRUE(executor_.tasks().empty());
}

TEST_F(SchedulerCoreFencingTest, ANewLeaderCountsFromItsOwnStart) {
  executor_.Connect();
  JobSpec spec = CoreHarness::Spec(1, 1000);
  *spec.mutable_fence_after() = ToProto(absl::Minutes(2));
  RunJob("a", spec);
  const absl::Duration replace_after = Config().ReplaceAfter(absl::Minutes(2));
  harness_.Advance(replace_after - absl::Seconds(1));
  harness_.NewLeader();
  harness_.Advance(replace_after - absl::Milliseconds(1));
  EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
  harness_.Advance(absl::Milliseconds(1));
  EXPECT_NE(StateOf("a"), Job::STATE_RUNNING);
}

TEST_F(SchedulerCoreFencingTest, ASilentNodeCountsFromItsReport) {
  executor_.Connect();
  JobSpec spec = CoreHarness::Spec(2, 3000);
  *spec.mutable_fence_after() = ToProto(absl::Minutes(2));
  RunJob("a", spec);
  AdvanceHeard(absl::Seconds(30));
  executor_.ReportNode(0, true);
  const absl::Duration replace_after = Config().ReplaceAfter(absl::Minutes(2));
  AdvanceHeard(replace_after - absl::Seconds(3));
  EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
  AdvanceHeard(absl::Seconds(3));
  EXPECT_EQ(harness_.job("a").gang->tasks[0].end().cause(), TaskEnd::CAUSE_NODE_GIVEN_UP);
  EXPECT_EQ(harness_.job("a").gang->tasks[1].end().cause(), TaskEnd::CAUSE_STOPPED);
  EXPECT_EQ(StateOf("a"), Job::STATE_QUEUED) << "the other Node alone is too small";
  // Else its executor, which hears us, would start it once the Node is back.
  EXPECT_TRUE(executor_.tasks().count("a/1/worker-0") == 0 ||
              executor_.tasks().at("a/1/worker-0").desired.phase() == DesiredTask::PHASE_STOP);
  executor_.ReportNode(0, false);
  EXPECT_EQ(StateOf("a"), Job::STATE_PREPARING);
  EXPECT_EQ(harness_.job("a").state.generation(), 2);
}

TEST_F(SchedulerCoreFencingTest, UnfencedNodesAreNeverGivenUp) {
  executor_.Connect();
  RunJob("a", CoreHarness::Spec(1, 1000));
  ObservationsReceived report;
  report.session = executor_.session();
  auto& node = *report.observations.add_nodes();
  node = harness_.core().model().nodes.at({"local", "n0"}).observation();
  node.add_limitations(capstan::type::v1::NodeObservation::LIMITATION_UNFENCED);
  harness_.Apply(report);
  executor_.Disconnect();
  harness_.Advance(absl::Hours(48));
  EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
}

TEST_F(SchedulerCoreFencingTest, FreezesWhenTheObserverIsSuspectedUntilConfirmed) {
  std::vector<std::unique_ptr<FakeExecutor>> executors;
  for (int i = 0; i < 5; ++i) {
    executors.push_back(std::make_unique<FakeExecutor>(absl::StrCat("c", i), 1, 2000, &harness_));
    executors.back()->Connect();
    JobSpec spec = CoreHarness::Spec(1, 1000);
    spec.add_clusters(absl::StrCat("c", i));
    executors.back()->Take(harness_.Submit(absl::StrCat("j", i), spec));
    executors.back()->PrepareAll();
  }
  // Three of five stop talking.
  bool suspected = false;
  auto advance = [&](absl::Duration d) {
    for (; d > absl::ZeroDuration(); d -= absl::Seconds(10)) {
      executors[3]->Renew();
      executors[4]->Renew();
      for (const auto& told : Of<ObserverSuspected>(harness_.Advance(absl::Seconds(10)))) {
        suspected = told.suspected;
      }
    }
  };
  advance(absl::Hours(2));
  EXPECT_TRUE(suspected);
  EXPECT_EQ(StateOf("j0"), Job::STATE_RUNNING);
  // A confirmed end is never frozen.
  executors[3]->RunAll();
  executors[3]->End("j3/1/worker-0", TaskEnd::CAUSE_SIGNALED);
  advance(absl::Minutes(1));
  EXPECT_EQ(harness_.job("j3").state.generation(), 2);
  auto effects = harness_.Apply(ConfirmSilence{1});
  ASSERT_EQ(Of<ObserverSuspected>(effects).size(), 1u);
  EXPECT_FALSE(Of<ObserverSuspected>(effects)[0].suspected);
  EXPECT_EQ(StateOf("j0"), Job::STATE_QUEUED);
  EXPECT_EQ(ReasonOf("j0"), "RETURNING");
}

TEST_F(SchedulerCoreFencingTest, RenewalsAreAnsweredOnlyWhileTheLeadershipLeaseIsValid) {
  executor_.Connect();
  RenewalReceived renewal;
  renewal.session = executor_.session();
  renewal.sequence = 7;
  renewal.leader_until = harness_.now().boot + absl::Nanoseconds(1);
  auto sent = Of<SendDown>(harness_.Apply(renewal));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].message.renewal_answer().sequence(), 7);
  EXPECT_EQ(sent[0].send_before, renewal.leader_until);
  renewal.leader_until = harness_.now().boot;
  EXPECT_TRUE(Of<SendDown>(harness_.Apply(renewal)).empty());
}

TEST_F(SchedulerCoreFencingTest, ALowerLeaderMustNotSpeak) {
  HelloReceived hello;
  hello.session = 77;
  hello.hello.set_cluster("local");
  hello.hello.mutable_highest_token()->set_store_incarnation(2);
  auto effects = harness_.Apply(hello);
  ASSERT_EQ(Of<CloseSession>(effects).size(), 1u);
  EXPECT_EQ(status::Reason(Of<CloseSession>(effects)[0].status), "STALE_LEADER");
  EXPECT_TRUE(Of<SendDown>(effects).empty());
}

TEST_F(SchedulerCoreFencingTest, ASecondSessionReplacesTheFirst) {
  executor_.Connect();
  const SessionId first = executor_.session();
  HelloReceived hello;
  hello.session = 1000;
  hello.hello.set_cluster("local");
  hello.hello.set_incarnation(1);
  auto closed = Of<CloseSession>(harness_.Apply(hello));
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_EQ(closed[0].session, first);
  EXPECT_EQ(closed[0].status.code(), absl::StatusCode::kAborted);
  RenewalReceived late;
  late.session = first;
  late.leader_until = BootTime::InfiniteFuture();
  EXPECT_TRUE(harness_.Apply(late).empty());
}

TEST_F(SchedulerCoreFencingTest, TasksMissingFromAFullReportAreLostOnlyOnNodesThatAreHeard) {
  executor_.Connect();
  RunJob("a", CoreHarness::Spec(2, 3000));
  executor_.Disconnect();
  const std::string on_n0 =
      executor_.tasks().at("a/1/worker-0").desired.node() == "n0" ? "a/1/worker-0" : "a/1/worker-1";
  executor_.tasks().erase(on_n0);
  executor_.ReportNode(0, true);
  executor_.Connect();
  EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING) << "nobody hears the Node: the Task may be there";
  executor_.Disconnect();
  executor_.ReportNode(0, false);
  executor_.Connect();
  EXPECT_NE(harness_.job("a").state.generation(), 1) << "confirmed: it is not there";
}

TEST_F(SchedulerCoreFencingTest, ANewLeaderResendsWhatIsStored) {
  executor_.Connect();
  Submit("a", CoreHarness::Spec(2, 1000));
  executor_.Disconnect();
  executor_.tasks().clear();  // the message was lost
  harness_.NewLeader();
  executor_.Connect();
  EXPECT_EQ(executor_.tasks().size(), 2u);
  executor_.PrepareAll();
  EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
}

TEST_F(SchedulerCoreFencingTest, ANodesReturnIsAcknowledgedAfterItsStraysAreStopped) {
  executor_.Connect();
  JobSpec spec = CoreHarness::Spec(2, 3000);
  *spec.mutable_fence_after() = ToProto(absl::Minutes(2));
  RunJob("a", spec);
  executor_.ReportNode(0, true);
  // The end by decree is told at once: the executor might start the Task when the Node comes back.
  bool stopped = false;
  for (int i = 0; i < 100; ++i) {
    executor_.Renew();
    const auto effects = harness_.Advance(absl::Seconds(3));
    for (const SendDown& send : Of<SendDown>(effects)) {
      for (const DesiredTask& task : send.message.desired().tasks()) {
        stopped = stopped || (task.node() == "n0" && task.phase() == DesiredTask::PHASE_STOP);
      }
    }
    executor_.Take(effects);
  }
  EXPECT_TRUE(stopped);
  // In a new session the Task is named by a later message of the first report than its Node.
  executor_.Disconnect();
  HelloReceived hello;
  hello.session = 900;
  hello.hello.set_cluster("local");
  hello.hello.set_incarnation(1);
  harness_.Apply(hello);
  ObservationsReceived first;
  first.session = 900;
  first.observations.set_journal_sequence(100);
  first.observations.add_nodes()->set_node("n0");
  for (const SendDown& send : Of<SendDown>(harness_.Apply(first))) {
    EXPECT_TRUE(send.message.observations_ack().returned_nodes().empty());
  }
  ObservationsReceived last;
  last.session = 900;
  last.observations.set_journal_sequence(101);
  last.observations.set_sync_complete(true);
  auto& task = *last.observations.add_tasks();
  task.mutable_key()->set_job_uid("a");
  task.mutable_key()->set_generation(1);
  task.mutable_key()->set_group("worker");
  task.set_node("n0");
  task.set_state(TaskObservation::STATE_RUNNING);
  const auto sent = Of<SendDown>(harness_.Apply(last));
  ASSERT_GE(sent.size(), 2u);
  EXPECT_EQ(sent[0].message.desired().tasks(0).phase(), DesiredTask::PHASE_STOP);
  EXPECT_EQ(sent.back().message.observations_ack().returned_nodes_size(), 1);
}

}  // namespace
}  // namespace capstan::scheduler
