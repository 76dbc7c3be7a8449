// Jobs of one key, which run one after another.
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/core_test_fixture.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::TaskEnd;

class SchedulerCoreSingletonTest : public SchedulerCoreTest {
 protected:
  static JobSpec Only(const std::string& singleton, const std::string& after = "") {
    JobSpec spec = CoreHarness::Spec(1, 1000);
    spec.mutable_retry()->set_max_restarts(0);
    spec.set_singleton(singleton);
    if (!after.empty()) spec.add_after()->set_job(absl::StrCat("projects/p/jobs/", after));
    return spec;
  }
  void End(const std::string& id, int exit_code = 0, int generation = 1) {
    executor_.PrepareAll();
    executor_.RunAll();
    ASSERT_EQ(StateOf(id), Job::STATE_RUNNING) << id;
    executor_.End(absl::StrCat(id, "/", generation, "/worker-0"), TaskEnd::CAUSE_EXITED, exit_code);
  }
  static CancelJob CancelOf(CoreHarness* harness, const std::string& id) {
    return CancelJob{harness->next_call(), absl::StrCat("projects/p/jobs/", id), ""};
  }
  void Cancel(const std::string& id) { executor_.Take(harness_.Apply(CancelOf(&harness_, id))); }
  std::string Message(const std::string& id) { return harness_.job(id).state.message(); }
};

TEST_F(SchedulerCoreSingletonTest, RunOneAfterAnotherInOrderOfSubmissionHoweverEachEnds) {
  executor_.Connect();
  for (const char* id : {"a", "b", "c"}) Submit(id, Only("nightly"));
  Submit("other", Only("weekly"));
  Submit("free", Only(""));
  EXPECT_EQ(StateOf("a"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf("other"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf("free"), Job::STATE_PREPARING);
  EXPECT_EQ(ReasonOf("b"), "DEPENDENCY");
  EXPECT_EQ(Message("b"), "waits for projects/p/jobs/a to end, which has the same singleton");
  EXPECT_EQ(Message("c"), "waits for projects/p/jobs/b to end, which has the same singleton");
  EXPECT_EQ(
      ExplainJob(harness_.core().model(), harness_.job("b"), {}, harness_.now().wall).summary(),
      "waits for projects/p/jobs/a (PREPARING, PLACED) to end, which has the same singleton");
  EXPECT_EQ(harness_.core().waiting_jobs(), 0u);
  End("a", /*exit_code=*/1);
  EXPECT_EQ(StateOf("a"), Job::STATE_FAILED);
  EXPECT_EQ(StateOf("b"), Job::STATE_PREPARING);
  EXPECT_EQ(ReasonOf("c"), "DEPENDENCY");
  End("b");
  EXPECT_EQ(StateOf("c"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreSingletonTest, OneThatIsCancelledMeanwhileIsWaitedForNoMore) {
  executor_.Connect();
  for (const char* id : {"a", "b", "c"}) Submit(id, Only("nightly"));
  Cancel("b");
  EXPECT_EQ(ReasonOf("c"), "DEPENDENCY");
  EXPECT_EQ(Message("c"), "waits for projects/p/jobs/a to end, which has the same singleton");
  End("a");
  EXPECT_EQ(StateOf("c"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreSingletonTest, IsOfAProjectWhateverTheQueue) {
  executor_.Connect();
  CreateQueue create;
  create.call = harness_.next_call();
  create.queue_id = create.uid = "research";
  harness_.Apply(create);
  Submit("a", Only("nightly"));
  JobSpec spec = Only("nightly");
  spec.set_queue("queues/research");
  Submit("b", spec);
  EXPECT_EQ(ReasonOf("b"), "DEPENDENCY");
  CreateJob elsewhere = harness_.SubmitEvent("c", Only("nightly"));
  elsewhere.project = "projects/q";
  executor_.Take(harness_.Apply(elsewhere));
  EXPECT_EQ(StateOf("c"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreSingletonTest, WaitsForBothAndSaysSo) {
  executor_.Connect();
  Submit("other", Only(""));
  Submit("a", Only("nightly"));
  Submit("b", Only("nightly", "other"));
  Submit("c", Only("nightly"));
  EXPECT_EQ(Message("b"), "waits for projects/p/jobs/other to succeed, and for 1 more Job");
  End("a");
  EXPECT_EQ(Message("b"), "waits for projects/p/jobs/other to succeed");
  EXPECT_EQ(ReasonOf("c"), "DEPENDENCY") << "whatever holds up who came before it";
  End("other");
  EXPECT_EQ(StateOf("b"), Job::STATE_PREPARING);
  EXPECT_EQ(ReasonOf("c"), "DEPENDENCY");
}

// What can never begin holds up nobody.
TEST_F(SchedulerCoreSingletonTest, OneWhoseDependencyFailsLetsTheNextBegin) {
  executor_.Connect();
  Submit("other", Only(""));
  Submit("a", Only("nightly", "other"));
  Submit("b", Only("nightly"));
  EXPECT_EQ(ReasonOf("b"), "DEPENDENCY");
  End("other", /*exit_code=*/1);
  EXPECT_EQ(ReasonOf("a"), "DEPENDENCY_FAILED");
  EXPECT_EQ(StateOf("b"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreSingletonTest, ARestartKeepsItsPlace) {
  executor_.Connect();
  JobSpec spec = Only("nightly");
  spec.mutable_retry()->set_max_restarts(1);
  Submit("a", spec);
  Submit("b", Only("nightly"));
  End("a", /*exit_code=*/1);
  EXPECT_EQ(ReasonOf("a"), "BACK_OFF");
  EXPECT_EQ(ReasonOf("b"), "DEPENDENCY");
  AdvanceHeard(absl::Seconds(10));
  End("a", /*exit_code=*/0, /*generation=*/2);
  EXPECT_EQ(StateOf("b"), Job::STATE_PREPARING);
}

// A leader that dies after any of the writes of a step forgets nobody and lets no two begin.
TEST_F(SchedulerCoreSingletonTest, OutlivesLeadersThatDieBetweenAnyTwoWrites) {
  for (size_t writes = 0; writes < 4; ++writes) {
    SCOPED_TRACE(writes);
    CoreHarness harness(Config());
    for (const char* id : {"a", "b", "c"}) harness.Submit(id, Only("nightly"));
    harness.CrashIn(CancelOf(&harness, "a"), writes);
    harness.Advance(absl::Seconds(1));
    const bool ended = harness.job("a").final();
    EXPECT_EQ(ended, writes > 0);
    EXPECT_EQ(harness.job("b").state.reason() == "DEPENDENCY", !ended);
    EXPECT_EQ(harness.job("c").state.reason(), "DEPENDENCY");
    harness.CrashIn(CancelOf(&harness, "b"), writes);
    harness.Advance(absl::Seconds(1));
    if (!ended) continue;
    EXPECT_EQ(harness.job("c").state.reason() == "DEPENDENCY", !harness.job("b").final());
    EXPECT_EQ(harness.job("c").state.singleton_behind(),
              harness.job("b").final() ? "" : "projects/p/jobs/b");
  }
}

}  // namespace
}  // namespace capstan::scheduler
