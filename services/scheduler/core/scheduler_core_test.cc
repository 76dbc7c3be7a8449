#include "services/scheduler/core/scheduler_core.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/core_test_fixture.h"
#include "services/scheduler/core/render.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::DesiredTask;
using capstan::type::v1::Stop;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskObservation;

TEST_F(SchedulerCoreTest, RunsAGangFromSubmitToSuccess) {
  executor_.Connect();
  Submit("a", CoreHarness::Spec(3, 2000));
  ASSERT_EQ(StateOf("a"), Job::STATE_PREPARING);
  ASSERT_EQ(executor_.tasks().size(), 3u);
  for (const auto& [key, task] : executor_.tasks()) {
    EXPECT_EQ(task.desired.phase(), DesiredTask::PHASE_PREPARE);
    EXPECT_FALSE(task.desired.has_rendezvous());
  }
  executor_.PrepareAll();
  ASSERT_EQ(StateOf("a"), Job::STATE_RUNNING);
  const auto& first = executor_.tasks().at("a/1/worker-0").desired;
  EXPECT_EQ(first.phase(), DesiredTask::PHASE_START);
  EXPECT_EQ(first.rendezvous().world_size(), 3);
  EXPECT_EQ(first.rendezvous().master_addr(), "host-n0");
  EXPECT_EQ(first.rendezvous().master_port(), 20001);
  EXPECT_EQ(first.rendezvous().peers_size(), 3);
  EXPECT_EQ(first.rendezvous().local_world_size(), 2);
  // Consecutive ranks share a Node: 0 and 1 on one, 2 on the other.
  const auto& second = executor_.tasks().at("a/1/worker-1").desired;
  EXPECT_EQ(second.node(), first.node());
  EXPECT_EQ(second.rendezvous().local_rank(), 1);
  EXPECT_NE(executor_.tasks().at("a/1/worker-2").desired.node(), first.node());

  executor_.RunAll();
  for (const std::string& key : executor_.Keys()) executor_.End(key, TaskEnd::CAUSE_EXITED);
  EXPECT_EQ(StateOf("a"), Job::STATE_SUCCEEDED);
  EXPECT_TRUE(executor_.tasks().empty()) << "stored ends are forgotten below";
  std::vector<std::string> states;
  for (const auto& event : harness_.events()) {
    if (!event.has_task()) states.push_back(event.state());
  }
  EXPECT_EQ(states, (std::vector<std::string>{"QUEUED", "PREPARING", "RUNNING", "SUCCEEDED"}));
}

TEST_F(SchedulerCoreTest, PlacesAllOrNoneAndArmsNothingForAJobThatWaits) {
  executor_.Connect();
  RunJob("a", CoreHarness::Spec(3, 2000));
  const absl::optional<BootTime> before = harness_.core().NextDeadline();
  Submit("b", CoreHarness::Spec(2, 2000));  // one would fit
  EXPECT_EQ(StateOf("b"), Job::STATE_QUEUED);
  EXPECT_EQ(ReasonOf("b"), "INSUFFICIENT_RESOURCES");
  EXPECT_EQ(harness_.job("b").state.message(),
            "after 1 of 2 Tasks, 2 of 2 nodes lack cpu: a Task asks 2, at most 0 free");
  EXPECT_FALSE(harness_.job("b").gang.has_value());
  EXPECT_EQ(harness_.core().NextDeadline(), before) << "a Job that waits for room arms no timer";
  // A smaller Job behind it may run.
  Submit("c", CoreHarness::Spec(1, 1500));
  EXPECT_EQ(StateOf("c"), Job::STATE_PREPARING);
  // The event that frees room starts it.
  executor_.End("a/1/worker-0", TaskEnd::CAUSE_EXITED);
  EXPECT_EQ(StateOf("b"), Job::STATE_QUEUED);
  executor_.End("a/1/worker-2", TaskEnd::CAUSE_EXITED);
  EXPECT_EQ(StateOf("b"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreTest, OrdersByPriorityThenSubmission) {
  JobSpec low = CoreHarness::Spec(2, 4000);
  JobSpec high = low;
  high.set_priority(5);
  Submit("a", low);
  Submit("b", low);
  Submit("c", high);
  executor_.Connect();
  EXPECT_EQ(StateOf("c"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf("a"), Job::STATE_QUEUED);
  executor_.Take(harness_.Apply(CancelJob{1, "projects/p/jobs/c", ""}));
  EXPECT_EQ(StateOf("c"), Job::STATE_CANCELLED);
  EXPECT_EQ(StateOf("a"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf("b"), Job::STATE_QUEUED);
}

TEST_F(SchedulerCoreTest, AFailedTaskRestartsTheWholeGangAfterTheBackOff) {
  executor_.Connect();
  RunJob("a", CoreHarness::Spec(2, 1000));
  executor_.ReportNode(1, false);
  // The other Task is told to stop, and only when its end is stored the generation is over.
  executor_.End("a/1/worker-1", TaskEnd::CAUSE_SIGNALED);
  EXPECT_EQ(StateOf("a"), Job::STATE_QUEUED);
  EXPECT_EQ(ReasonOf("a"), "BACK_OFF");
  EXPECT_EQ(harness_.job("a").state.counted_restarts(), 1);
  EXPECT_EQ(harness_.job("a").gang->tasks[0].end().cause(), TaskEnd::CAUSE_STOPPED);
  Advance(absl::Milliseconds(999));
  EXPECT_EQ(StateOf("a"), Job::STATE_QUEUED);
  Advance(absl::Milliseconds(1));
  EXPECT_EQ(StateOf("a"), Job::STATE_PREPARING);
  EXPECT_EQ(harness_.job("a").state.generation(), 2);
  EXPECT_EQ(executor_.tasks().count("a/2/worker-0"), 1u);
}

TEST_F(SchedulerCoreTest, FailsOnceItsRestartsAreUsed) {
  executor_.Connect();
  JobSpec spec = CoreHarness::Spec(1, 1000);
  spec.mutable_retry()->set_max_restarts(1);
  RunJob("a", spec);
  executor_.End("a/1/worker-0", TaskEnd::CAUSE_EXITED, 3);
  AdvanceHeard(absl::Seconds(2));
  executor_.PrepareAll();
  executor_.RunAll();
  executor_.End("a/2/worker-0", TaskEnd::CAUSE_EXITED, 3);
  EXPECT_EQ(StateOf("a"), Job::STATE_FAILED);
  EXPECT_EQ(ReasonOf("a"), "TASK_FAILED");
  EXPECT_EQ(harness_.job("a").state.message(),
            "task worker-0 exited with code 3; 1 of 1 restarts were used");
}

TEST_F(SchedulerCoreTest, UncountedEndsAreNotCounted) {
  executor_.Connect();
  JobSpec spec = CoreHarness::Spec(2, 1000);
  spec.mutable_retry()->set_max_restarts(0);
  RunJob("a", spec);
  int generation = 1;
  const std::pair<TaskEnd::Cause, int> ends[] = {{TaskEnd::CAUSE_RENDEZVOUS_PORT_TAKEN, 0},
                                                 {TaskEnd::CAUSE_EXITED, 98},
                                                 {TaskEnd::CAUSE_LOST, 0},
                                                 {TaskEnd::CAUSE_FENCED, 0},
                                                 {TaskEnd::CAUSE_STOPPED, 0}};
  for (const auto& [cause, code] : ends) {
    SCOPED_TRACE(TaskEnd::Cause_Name(cause));
    executor_.End(absl::StrCat("a/", generation, "/worker-0"), cause, code);
    if (cause == TaskEnd::CAUSE_STOPPED) {
      // A Node that ends Tasks unasked takes no new ones until it reports again.
      AdvanceHeard(absl::Minutes(1));
      EXPECT_EQ(StateOf("a"), Job::STATE_PREPARING);
      EXPECT_EQ(executor_.tasks().begin()->second.desired.node(), "n1");
      break;
    }
    AdvanceHeard(absl::Minutes(1));
    ++generation;
    ASSERT_EQ(harness_.job("a").state.generation(), generation);
    executor_.PrepareAll();
    executor_.RunAll();
    EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
    EXPECT_EQ(harness_.job("a").state.counted_restarts(), 0);
  }
}

TEST_F(SchedulerCoreTest, CancelStopsWithTheJobsGrace) {
  executor_.Connect();
  JobSpec spec = CoreHarness::Spec(2, 1000);
  *spec.mutable_stop_grace() = ToProto(absl::Seconds(7));
  RunJob("a", spec);
  auto effects = harness_.Apply(CancelJob{9, "projects/p/jobs/a", ""});
  ASSERT_EQ(Of<ReplyJob>(effects).size(), 1u);
  EXPECT_EQ(Of<ReplyJob>(effects)[0].job->state(), Job::STATE_STOPPING);
  auto sent = Of<SendDown>(effects);
  ASSERT_EQ(sent.size(), 1u);
  for (const DesiredTask& task : sent[0].message.desired().tasks()) {
    EXPECT_EQ(task.phase(), DesiredTask::PHASE_STOP);
    EXPECT_EQ(task.stop().reason(), Stop::REASON_CANCELLED);
    EXPECT_EQ(ToDuration(task.stop().grace()), absl::Seconds(7));
  }
  executor_.Take(effects);
  EXPECT_EQ(StateOf("a"), Job::STATE_CANCELLED);
  // Again: the same answer, nothing happens.
  effects = harness_.Apply(CancelJob{10, "projects/p/jobs/a", ""});
  EXPECT_EQ(Of<ReplyJob>(effects)[0].job->state(), Job::STATE_CANCELLED);
  EXPECT_TRUE(Of<SendDown>(effects).empty());
  EXPECT_EQ(
      status::Reason(Of<ReplyJob>(harness_.Apply(CancelJob{11, "projects/p/jobs/a", "\"0\""}))[0]
                         .job.status()),
      "ETAG_MISMATCH");
}

TEST_F(SchedulerCoreTest, PrepareWithoutProgressIsUndone) {
  executor_.Connect();
  Submit("a", CoreHarness::Spec(2, 1000));
  AdvanceHeard(absl::Minutes(9));
  auto& task = executor_.tasks().at("a/1/worker-0");
  task.observed.set_state(TaskObservation::STATE_PREPARING);
  task.observed.set_progress("loading 40 %");
  executor_.Report("a/1/worker-0");
  AdvanceHeard(absl::Minutes(9));
  EXPECT_EQ(StateOf("a"), Job::STATE_PREPARING) << "progress begins the time anew";
  AdvanceHeard(absl::Minutes(1));
  EXPECT_EQ(harness_.job("a").state.counted_restarts(), 1);
  AdvanceHeard(absl::Seconds(2));
  EXPECT_EQ(harness_.job("a").state.generation(), 2);
}

TEST_F(SchedulerCoreTest, OnePrepareFailureUndoesAll) {
  executor_.Connect();
  Submit("a", CoreHarness::Spec(2, 1000));
  executor_.End("a/1/worker-0", TaskEnd::CAUSE_PREPARE_FAILED);
  EXPECT_EQ(harness_.job("a").gang->head.stop_reason(), Stop::REASON_PREPARE_FAILED);
  EXPECT_EQ(ReasonOf("a"), "BACK_OFF");
  for (const auto& event : harness_.events()) EXPECT_NE(event.state(), "RUNNING");
}

TEST_F(SchedulerCoreTest, CreateIsIdempotentByRequestId) {
  CreateJob create;
  create.call = 1;
  create.project = "projects/p";
  create.uid = "u1";
  create.request_id = "r1";
  create.body_hash = "h1";
  create.spec = CoreHarness::Spec(1, 1000);
  create.spec.set_queue("queues/default");
  auto first = Of<ReplyJob>(harness_.Apply(create));
  ASSERT_TRUE(first[0].job.ok()) << first[0].job.status();
  EXPECT_EQ(first[0].job->name(), "projects/p/jobs/job-u1");
  create.uid = "u2";
  auto again = Of<ReplyJob>(harness_.Apply(create));
  ASSERT_TRUE(again[0].job.ok());
  EXPECT_EQ(again[0].job->uid(), "u1");
  create.body_hash = "h2";
  EXPECT_EQ(status::Reason(Of<ReplyJob>(harness_.Apply(create))[0].job.status()),
            "REQUEST_ID_REUSED");
  // A new leader remembers; after a day nobody does.
  harness_.NewLeader();
  EXPECT_EQ(status::Reason(Of<ReplyJob>(harness_.Apply(create))[0].job.status()),
            "REQUEST_ID_REUSED");
  harness_.Advance(absl::Hours(25));
  EXPECT_EQ(Of<ReplyJob>(harness_.Apply(create))[0].job->uid(), "u2");
}

TEST_F(SchedulerCoreTest, RefusesWhatItCannotKeep) {
  CreateJob create;
  create.project = "projects/p";
  create.job_id = "a";
  create.uid = "u1";
  create.spec = CoreHarness::Spec(1, 1000);
  create.spec.set_queue("queues/absent");
  auto refused = Of<ReplyJob>(harness_.Apply(create))[0].job.status();
  ASSERT_EQ(status::GetFieldViolations(refused).size(), 1u);
  EXPECT_EQ(status::GetFieldViolations(refused)[0].field, "job.spec.queue");
  create.spec.set_queue("queues/default");
  create.validate_only = true;
  EXPECT_TRUE(Of<ReplyJob>(harness_.Apply(create))[0].job.ok());
  EXPECT_TRUE(harness_.core().model().jobs.empty());
  create.validate_only = false;
  EXPECT_TRUE(Of<ReplyJob>(harness_.Apply(create))[0].job.ok());
  create.uid = "u2";
  EXPECT_EQ(status::Reason(Of<ReplyJob>(harness_.Apply(create))[0].job.status()), "JOB_EXISTS");
}

TEST_F(SchedulerCoreTest, CordonsAreASetByOwner) {
  executor_.Connect();
  harness_.Apply(CordonNode{1, "local", "n0", "alice", "disk"});
  harness_.Apply(CordonNode{2, "local", "n0", "svc", "silent"});
  harness_.Apply(CordonNode{3, "local", "n1", "alice", ""});
  Submit("a", CoreHarness::Spec(1, 1000));
  EXPECT_EQ(harness_.job("a").state.message(), "2 of 2 nodes are cordoned");
  harness_.Apply(UncordonNode{4, "local", "n0", "alice"});
  EXPECT_EQ(StateOf("a"), Job::STATE_QUEUED) << "no one lifts another's cordon";
  auto effects = harness_.Apply(UncordonNode{5, "local", "n0", "svc"});
  EXPECT_TRUE(Of<ReplyNode>(effects)[0].node->cordons().empty());
  EXPECT_EQ(StateOf("a"), Job::STATE_PREPARING);
  EXPECT_EQ(Of<ReplyNode>(harness_.Apply(CordonNode{6, "local", "n9", "alice", ""}))[0]
                .node.status()
                .code(),
            absl::StatusCode::kNotFound);
}

TEST_F(SchedulerCoreTest, WaitsForDataHoldingNothing) {
  JobSpec spec = CoreHarness::Spec(1, 1000);
  spec.add_datasets()->set_dataset("projects/p/datasets/digits");
  spec.set_bundle("sha256:abc");
  spec.set_output(true);
  auto effects = harness_.Submit("a", spec);
  EXPECT_TRUE(Of<EnsureData>(effects).empty()) << "no cluster to bring it to is known";
  EXPECT_EQ(ReasonOf("a"), "AWAITING_DATA");
  HelloReceived hello;
  hello.session = 500;
  hello.hello.set_cluster("local");
  auto asked = Of<EnsureData>(harness_.Apply(hello));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].cluster, "local");
  harness_.Apply(SessionClosed{500});
  executor_.Connect();
  // A new leader asks again.
  EXPECT_EQ(Of<EnsureData>(harness_.NewLeader()).size(), 1u);
  executor_.Connect();
  DataProgressed progress;
  progress.job_uid = "a";
  progress.loaded_bytes = 40;
  progress.total_bytes = 100;
  progress.eta = absl::Seconds(6);
  harness_.Apply(progress);
  EXPECT_EQ(RenderJob(harness_.job("a")).data_progress().loaded_bytes(), 40);
  EXPECT_EQ(RenderJob(harness_.job("a")).data_progress().eta().seconds(), 6);
  executor_.Take(harness_.Apply(DataReady{"a", 0, "0123456789abcdef"}));
  ASSERT_EQ(StateOf("a"), Job::STATE_PREPARING);
  const auto& launch = executor_.tasks().at("a/1/worker-0").desired.launch();
  EXPECT_EQ(launch.datasets(0).version(), "0123456789abcdef");
  EXPECT_EQ(launch.output(), "projects/p/jobs/a/output");
  EXPECT_EQ(launch.bundle(), "sha256:abc");
  // Pins are released when the generation ends, and until that is confirmed.
  executor_.PrepareAll();
  executor_.RunAll();
  executor_.End("a/1/worker-0", TaskEnd::CAUSE_EXITED);
  EXPECT_EQ(Of<ReleasePins>(harness_.NewLeader()).size(), 1u);
  harness_.Apply(PinsReleased{"a", 1});
  EXPECT_TRUE(Of<ReleasePins>(harness_.NewLeader()).empty());
}

TEST_F(SchedulerCoreTest, AMissingObjectFailsTheJobByName) {
  executor_.Connect();
  JobSpec spec = CoreHarness::Spec(1, 1000);
  spec.add_datasets()->set_dataset("projects/p/datasets/digits");
  harness_.Submit("a", spec);
  auto effects = harness_.Apply(DataFailed{"a", 0, "DATA_NOT_FOUND", "part-7.npz is not there"});
  EXPECT_EQ(StateOf("a"), Job::STATE_FAILED);
  EXPECT_EQ(ReasonOf("a"), "DATA_NOT_FOUND");
  EXPECT_EQ(harness_.job("a").state.message(), "part-7.npz is not there");
  EXPECT_EQ(Of<StopData>(effects).size(), 1u);
}

TEST_F(SchedulerCoreTest, AnotherVersionThanTheJobHasAskedForFailsIt) {
  executor_.Connect();
  JobSpec spec = CoreHarness::Spec(1, 1000);
  spec.add_datasets()->set_dataset("projects/p/datasets/digits");
  spec.mutable_datasets(0)->set_version("0123456789abcdef");
  harness_.Submit("a", spec);
  harness_.Apply(DataReady{"a", 0, "fedcba9876543210"});
  EXPECT_EQ(StateOf("a"), Job::STATE_FAILED);
  EXPECT_EQ(ReasonOf("a"), "DATA_LOAD_FAILED");
  EXPECT_EQ(harness_.job("a").state.message(),
            "projects/p/datasets/digits: version '0123456789abcdef' has left the Site, and its "
            "source has 'fedcba9876543210' now; submit the Job again to use that");
}

// The version of the first generation has left the Site between two, and its source was changed.
TEST_F(SchedulerCoreTest, ALaterGenerationIsNotGivenAnotherVersion) {
  executor_.Connect();
  JobSpec spec = CoreHarness::Spec(1, 1000);
  spec.add_datasets()->set_dataset("projects/p/datasets/digits");
  spec.mutable_retry()->set_max_restarts(3);
  harness_.Submit("a", spec);
  executor_.Take(harness_.Apply(DataReady{"a", 0, "0123456789abcdef"}));
  executor_.End("a/1/worker-0", TaskEnd::CAUSE_PREPARE_FAILED);
  AdvanceHeard(absl::Seconds(5));
  ASSERT_EQ(ReasonOf("a"), "AWAITING_DATA");
  harness_.Apply(DataReady{"a", 0, "fedcba9876543210"});
  EXPECT_EQ(StateOf("a"), Job::STATE_FAILED);
  EXPECT_EQ(ReasonOf("a"), "DATA_LOAD_FAILED");
}

TEST_F(SchedulerCoreTest, UnisolatedNodesRunOneSubmittersJobs) {
  executor_.Connect();
  for (int i = 0; i < 2; ++i) {
    ObservationsReceived report;
    report.session = executor_.session();
    auto& node = *report.observations.add_nodes();
    node = harness_.core().model().nodes.at({"local", absl::StrCat("n", i)}).observation();
    node.add_limitations(capstan::type::v1::NodeObservation::LIMITATION_UNISOLATED);
    harness_.Apply(report);
  }
  Submit("a", CoreHarness::Spec(2, 3000));
  CreateJob create;
  create.project = "projects/p";
  create.job_id = "b";
  create.uid = "b";
  create.submitter = "person-2";
  create.spec = CoreHarness::Spec(1, 1000);
  create.spec.set_queue("queues/default");
  harness_.Apply(create);
  EXPECT_EQ(StateOf("b"), Job::STATE_QUEUED);
  Submit("c", CoreHarness::Spec(1, 1000));
  EXPECT_EQ(StateOf("c"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreTest, AStepsWorkIsBoundedAndGoesOnAtOnce) {
  FakeExecutor big("big", 1, 1'000'000, &harness_);
  JobSpec spec = CoreHarness::Spec(1, 1);
  spec.mutable_task_groups(0)->mutable_resources()->set_memory_bytes(1 << 20);
  for (int i = 0; i < 100; ++i) harness_.Submit(absl::StrCat("j", i), spec);
  big.Connect();
  EXPECT_EQ(harness_.core().waiting_jobs(), 100u - 32u);
  EXPECT_EQ(harness_.core().NextDeadline(), BootTime::InfinitePast());
  harness_.Advance(absl::ZeroDuration());
  EXPECT_EQ(harness_.core().waiting_jobs(), 0u);
}

}  // namespace
}  // namespace capstan::scheduler
