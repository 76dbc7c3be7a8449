// Jobs that wait for others to end.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/core_test_fixture.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobDependency;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::TaskEnd;

class SchedulerCoreDependenciesTest : public SchedulerCoreTest {
 protected:
  struct Asked {
    std::string job;
    JobDependency::Condition condition = JobDependency::CONDITION_SUCCEEDED;
  };

  static JobSpec After(const std::vector<Asked>& asked) {
    JobSpec spec = CoreHarness::Spec(1, 1000);
    spec.mutable_retry()->set_max_restarts(0);
    for (const Asked& one : asked) {
      JobDependency& after = *spec.add_after();
      after.set_job(absl::StrCat("projects/p/jobs/", one.job));
      after.set_condition(one.condition);
    }
    return spec;
  }
  absl::Status Refused(const std::string& id, const JobSpec& spec) {
    const std::vector<Effect> effects = harness_.Submit(id, spec);
    const std::vector<ReplyJob> replies = Of<ReplyJob>(effects);
    EXPECT_EQ(replies.size(), 1u);
    EXPECT_EQ(harness_.jobs().count(id), 0u);
    return replies.empty() ? absl::OkStatus() : replies[0].job.status();
  }
  // Runs the Job's one Task to its end.
  void End(const std::string& id, TaskEnd::Cause cause = TaskEnd::CAUSE_EXITED, int exit_code = 0) {
    executor_.PrepareAll();
    executor_.RunAll();
    ASSERT_EQ(StateOf(id), Job::STATE_RUNNING);
    executor_.End(absl::StrCat(id, "/1/worker-0"), cause, exit_code);
  }
  void Cancel(const std::string& id) {
    executor_.Take(
        harness_.Apply(CancelJob{harness_.next_call(), absl::StrCat("projects/p/jobs/", id), ""}));
  }
  std::string Summary(const std::string& id) {
    return ExplainJob(harness_.core().model(), harness_.job(id), {}, harness_.now().wall).summary();
  }
};

TEST_F(SchedulerCoreDependenciesTest, BeginsOnceTheOtherHasSucceeded) {
  executor_.Connect();
  Submit("a", After({}));
  Submit("b", After({{"a"}}));
  EXPECT_EQ(StateOf("b"), Job::STATE_QUEUED);
  EXPECT_EQ(ReasonOf("b"), "DEPENDENCY");
  EXPECT_EQ(harness_.job("b").state.message(), "waits for projects/p/jobs/a to succeed");
  EXPECT_EQ(Summary("b"), "waits for projects/p/jobs/a (PREPARING, PLACED) to succeed");
  EXPECT_EQ(harness_.core().waiting_jobs(), 0u) << "it stands in no Queue";
  End("a");
  EXPECT_EQ(StateOf("a"), Job::STATE_SUCCEEDED);
  EXPECT_EQ(StateOf("b"), Job::STATE_PREPARING);
  End("b");
  EXPECT_EQ(StateOf("b"), Job::STATE_SUCCEEDED);
}

TEST_F(SchedulerCoreDependenciesTest, EachConditionGoesByHowTheOtherEnds) {
  executor_.Connect();
  const struct {
    JobDependency::Condition condition;
    bool after_success, after_failure, after_cancel;
  } kCases[] = {{JobDependency::CONDITION_SUCCEEDED, true, false, false},
                {JobDependency::CONDITION_ENDED, true, true, true},
                {JobDependency::CONDITION_NOT_SUCCEEDED, false, true, true}};
  int n = 0;
  for (const auto& test : kCases) {
    for (const int end : {0, 1, 2}) {
      SCOPED_TRACE(absl::StrCat(test.condition, " ", end));
      const std::string other = absl::StrCat("a", n);
      const std::string waits = absl::StrCat("b", n++);
      Submit(other, After({}));
      Submit(waits, After({{other, test.condition}}));
      EXPECT_EQ(ReasonOf(waits), "DEPENDENCY");
      if (end == 2) {
        Cancel(other);
      } else {
        End(other, TaskEnd::CAUSE_EXITED, end);
      }
      const bool begins =
          end == 0 ? test.after_success : (end == 1 ? test.after_failure : test.after_cancel);
      EXPECT_EQ(StateOf(waits), begins ? Job::STATE_PREPARING : Job::STATE_CANCELLED);
      EXPECT_EQ(ReasonOf(waits), begins ? "PLACED" : "DEPENDENCY_FAILED");
      if (begins) End(waits);
    }
  }
}

TEST_F(SchedulerCoreDependenciesTest, WaitsForAllAndSaysForWhom) {
  executor_.Connect();
  Submit("a", After({}));
  Submit("b", After({}));
  Submit("c", After({{"a"}, {"b", JobDependency::CONDITION_ENDED}}));
  EXPECT_EQ(harness_.job("c").state.message(),
            "waits for projects/p/jobs/a to succeed, and for 1 more Job");
  End("a");
  EXPECT_EQ(ReasonOf("c"), "DEPENDENCY");
  EXPECT_EQ(harness_.job("c").state.message(), "waits for projects/p/jobs/b to end");
  Cancel("b");
  EXPECT_EQ(StateOf("c"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreDependenciesTest, AFailureEndsTheChainAndBeginsWhatWaitsForIt) {
  executor_.Connect();
  Submit("a", After({}));
  Submit("b", After({{"a"}}));
  Submit("c", After({{"b"}}));
  Submit("d", After({{"c", JobDependency::CONDITION_NOT_SUCCEEDED}}));
  End("a", TaskEnd::CAUSE_EXITED, 3);
  EXPECT_EQ(StateOf("a"), Job::STATE_FAILED);
  EXPECT_EQ(StateOf("b"), Job::STATE_CANCELLED);
  EXPECT_EQ(harness_.job("b").state.message(),
            "was to wait for projects/p/jobs/a to succeed, which is FAILED");
  EXPECT_EQ(StateOf("c"), Job::STATE_CANCELLED);
  EXPECT_EQ(StateOf("d"), Job::STATE_PREPARING);
}

TEST_F(SchedulerCoreDependenciesTest, WhatHasEndedAlreadyCounts) {
  executor_.Connect();
  Submit("a", After({}));
  End("a");
  Submit("b", After({{"a"}}));
  EXPECT_EQ(StateOf("b"), Job::STATE_PREPARING);
  const absl::Status refused = Refused("c", After({{"a", JobDependency::CONDITION_NOT_SUCCEEDED}}));
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status::Reason(refused), "DEPENDENCY_FAILED");
}

TEST_F(SchedulerCoreDependenciesTest, OnlyNamesJobsThatAreThere) {
  executor_.Connect();
  for (const char* id : {"c", "z"}) {
    const absl::Status refused = Refused("c", After({{id}}));
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
    EXPECT_NE(
        refused.ToString().find(id == std::string("c") ? "is this Job itself" : "does not exist"),
        std::string::npos)
        << refused;
  }
}

TEST_F(SchedulerCoreDependenciesTest, ACancelledJobWaitsNoMore) {
  executor_.Connect();
  Submit("a", After({}));
  Submit("b", After({{"a"}}));
  Cancel("b");
  EXPECT_EQ(StateOf("b"), Job::STATE_CANCELLED);
  End("a");
  EXPECT_EQ(StateOf("b"), Job::STATE_CANCELLED);
}

TEST_F(SchedulerCoreDependenciesTest, RestartsWaitForNobody) {
  executor_.Connect();
  Submit("a", After({}));
  JobSpec spec = After({{"a"}});
  spec.mutable_retry()->set_max_restarts(1);
  Submit("b", spec);
  End("a");
  End("b", TaskEnd::CAUSE_EXITED, 1);
  AdvanceHeard(absl::Seconds(10));
  EXPECT_EQ(StateOf("b"), Job::STATE_PREPARING);
  EXPECT_EQ(harness_.job("b").state.generation(), 2);
}

TEST_F(SchedulerCoreDependenciesTest, DataIsAskedForOnceTheOtherHasEnded) {
  executor_.Connect();
  Submit("a", After({}));
  JobSpec spec = After({{"a"}});
  spec.add_datasets()->set_dataset("projects/p/datasets/made-by-a");
  EXPECT_TRUE(Of<EnsureData>(harness_.Submit("b", spec)).empty());
  executor_.PrepareAll();
  executor_.RunAll();
  executor_.End("a/1/worker-0", TaskEnd::CAUSE_EXITED);
  EXPECT_EQ(ReasonOf("b"), "AWAITING_DATA");
}

// What ended is stored before what begins for its sake, whatever their uids.
TEST_F(SchedulerCoreDependenciesTest, NobodyBeginsForAnEndThatIsNotStored) {
  for (size_t writes = 0; writes < 4; ++writes) {
    SCOPED_TRACE(writes);
    CoreHarness harness(Config());
    harness.Submit("z", After({}));
    harness.Submit("a", After({{"z", JobDependency::CONDITION_ENDED}}));
    harness.Submit("b", After({{"z"}}));
    harness.CrashIn(CancelJob{harness.next_call(), "projects/p/jobs/z", ""}, writes);
    const bool ended = harness.job("z").final();
    EXPECT_EQ(ended, writes > 0);
    EXPECT_EQ(harness.job("a").state.reason() == "DEPENDENCY", !ended);
    EXPECT_EQ(harness.job("b").final(), ended);
  }
}

// A leader that dies after any of the writes of the step in which the other Job ends leaves nobody
// waiting for ever.
TEST_F(SchedulerCoreDependenciesTest, ANewLeaderTellsThoseWhoWereNotTold) {
  for (size_t writes = 0; writes < 4; ++writes) {
    SCOPED_TRACE(writes);
    const std::string a = absl::StrCat("a", writes), b = absl::StrCat("b", writes),
                      c = absl::StrCat("c", writes);
    CoreHarness harness(Config());
    harness.Submit(a, After({}));
    harness.Submit(b, After({{a}}));
    harness.Submit(c, After({{a, JobDependency::CONDITION_NOT_SUCCEEDED}}));
    harness.CrashIn(CancelJob{harness.next_call(), absl::StrCat("projects/p/jobs/", a), ""},
                    writes);
    harness.Advance(absl::Seconds(1));
    const bool cancelled = harness.job(a).final();
    EXPECT_EQ(cancelled, writes > 0);
    EXPECT_EQ(harness.job(b).final(), cancelled);
    EXPECT_EQ(harness.job(c).state.reason() == "DEPENDENCY", !cancelled);
  }
}

// What is told in one step is bounded; a thousand who wait are told in many.
TEST_F(SchedulerCoreDependenciesTest, ManyAreToldInManySteps) {
  executor_.Connect();
  constexpr int kMany = 200;
  Submit("a", After({}));
  for (int i = 0; i < kMany; ++i) Submit(absl::StrCat("b", i), After({{"a"}}));
  Cancel("a");
  const auto ended = [&] {
    int count = 0;
    for (const auto& [uid, job] : harness_.jobs()) count += job.final() ? 1 : 0;
    return count;
  };
  EXPECT_LT(ended(), kMany / 2);
  EXPECT_EQ(harness_.core().NextDeadline(), BootTime::InfinitePast());
  Advance(absl::Seconds(1));
  EXPECT_EQ(ended(), kMany + 1);
}

// The archive gets a Job only once all who wait for it are told.
TEST_F(SchedulerCoreDependenciesTest, WhatOthersWaitForStaysInTheStore) {
  executor_.Connect();
  CoreConfig config = Config();
  config.keep_finished_for = absl::ZeroDuration();
  CoreHarness harness(config);
  FakeExecutor executor("local", 2, 4000, &harness);
  executor.Connect();
  harness.Submit("a", After({}));
  for (int i = 0; i < 100; ++i) harness.Submit(absl::StrCat("b", i), After({{"a"}}));
  std::vector<Effect> effects =
      harness.Apply(CancelJob{harness.next_call(), "projects/p/jobs/a", ""});
  for (int i = 0; i < 20; ++i) {
    for (const ArchiveJobs& batch : Of<ArchiveJobs>(effects)) {
      JobsArchived archived;
      for (const Job& job : batch.jobs) archived.uids.push_back(job.uid());
      harness.Apply(archived);
    }
    effects = harness.Advance(absl::Minutes(1));
  }
  // Every one of them ended for the Job's sake, by name.
  EXPECT_TRUE(harness.jobs().empty());
  int failed = 0;
  for (const auto& event : harness.events()) {
    if (event.reason() == "DEPENDENCY_FAILED") {
      ++failed;
      EXPECT_EQ(event.message(),
                "was to wait for projects/p/jobs/a to succeed, which is CANCELLED");
    }
  }
  EXPECT_EQ(failed, 100);
}

}  // namespace
}  // namespace capstan::scheduler
