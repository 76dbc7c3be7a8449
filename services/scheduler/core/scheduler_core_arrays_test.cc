// Arrays: one submission that makes many Jobs.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/resource/id.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/arrays.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/core_test_fixture.h"
#include "services/scheduler/core/dependencies.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/render.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobDependency;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::TaskEnd;

JobSpec Array(int size, int max_parallel = 0) {
  JobSpec spec = CoreHarness::Spec(1, 1000);
  spec.mutable_retry()->set_max_restarts(0);
  spec.mutable_array()->set_size(size);
  spec.mutable_array()->set_max_parallel(max_parallel);
  return spec;
}

JobSpec After(JobSpec spec, const std::string& job, JobDependency::Condition condition) {
  JobDependency& after = *spec.add_after();
  after.set_job(absl::StrCat("projects/p/jobs/", job));
  after.set_condition(condition);
  return spec;
}

class SchedulerCoreArraysTest : public SchedulerCoreTest {
 protected:
  static std::string Uid(const std::string& array, int index) { return ElementUid(array, index); }
  const JobEntry& Element(const std::string& array, int index) {
    return harness_.job(Uid(array, index));
  }
  std::string ReasonOfElement(const std::string& array, int index) {
    return Element(array, index).state.reason();
  }
  void RunAll() {
    executor_.PrepareAll();
    executor_.RunAll();
  }
  void End(const std::string& array, int index, int exit_code = 0) {
    RunAll();
    ASSERT_EQ(Element(array, index).state.state(), Job::STATE_RUNNING) << index;
    executor_.End(absl::StrCat(Uid(array, index), "/1/worker-0"), TaskEnd::CAUSE_EXITED, exit_code);
  }
  static CancelJob CancelOf(CoreHarness* harness, const std::string& id) {
    return CancelJob{harness->next_call(), absl::StrCat("projects/p/jobs/", id), ""};
  }
  void Cancel(const std::string& id) { executor_.Take(harness_.Apply(CancelOf(&harness_, id))); }
  absl::Status Refused(const std::string& id, const JobSpec& spec) {
    const size_t before = harness_.jobs().size();
    const std::vector<Effect> effects = harness_.Submit(id, spec);
    EXPECT_EQ(harness_.jobs().size(), before) << "all or nothing";
    const std::vector<ReplyJob> replies = Of<ReplyJob>(effects);
    return replies.size() == 1 ? replies[0].job.status() : absl::OkStatus();
  }
  static int Count(const CoreHarness& harness, const std::string& reason) {
    return static_cast<int>(
        std::count_if(harness.jobs().begin(), harness.jobs().end(), [&reason](const auto& entry) {
          return IsElement(entry.second) && entry.second.state.reason() == reason;
        }));
  }
};

TEST_F(SchedulerCoreArraysTest, EachElementIsAJobThatKnowsWhichItIs) {
  executor_.Connect();
  const std::vector<ReplyJob> replies = Of<ReplyJob>(harness_.Submit("sweep", Array(3)));
  ASSERT_EQ(replies.size(), 1u);
  ASSERT_TRUE(replies[0].job.ok()) << replies[0].job.status();
  EXPECT_EQ(replies[0].job->name(), "projects/p/jobs/sweep");
  EXPECT_EQ(replies[0].job->array().size(), 3);
  ASSERT_EQ(harness_.jobs().size(), 4u);
  executor_.Connect();
  std::set<int> launched;
  for (const auto& [key, task] : executor_.tasks()) {
    const auto& element = task.desired.launch().element();
    EXPECT_EQ(element.array(), "projects/p/jobs/sweep");
    EXPECT_EQ(element.size(), 3);
    launched.insert(element.index());
  }
  EXPECT_EQ(launched, (std::set<int>{0, 1, 2}));
  for (int index = 0; index < 3; ++index) {
    const JobEntry& element = Element("sweep", index);
    EXPECT_EQ(element.spec.name(), absl::StrCat("projects/p/jobs/sweep-", index));
    EXPECT_TRUE(resource::IsValidUuid4(element.uid())) << element.uid();
    EXPECT_EQ(element.state.state(), Job::STATE_PREPARING);
    EXPECT_FALSE(element.spec.spec().has_array());
    EXPECT_EQ(RenderJob(element).element().index(), index);
  }
  EXPECT_EQ(StateOf("sweep"), Job::STATE_QUEUED);
  EXPECT_EQ(ReasonOf("sweep"), "DEPENDENCY");
  for (int index = 0; index < 3; ++index) End("sweep", index);
  EXPECT_EQ(StateOf("sweep"), Job::STATE_SUCCEEDED);
  EXPECT_EQ(harness_.job("sweep").state.generation(), 0);
}

TEST_F(SchedulerCoreArraysTest, FailsOnceAllHaveEndedIfOneHasNotSucceeded) {
  executor_.Connect();
  Submit("sweep", Array(3));
  End("sweep", 1, /*exit_code=*/1);
  EXPECT_EQ(StateOf("sweep"), Job::STATE_QUEUED);
  EXPECT_EQ(RenderJob(harness_.job("sweep")).array().ended(), 1);
  EXPECT_EQ(
      ExplainJob(harness_.core().model(), harness_.job("sweep"), {}, harness_.now().wall).summary(),
      "1 of its 3 elements have ended, 0 of them with success; waits for "
      "projects/p/jobs/sweep-0 (RUNNING, STARTED), projects/p/jobs/sweep-2 (RUNNING, "
      "STARTED)");
  End("sweep", 0);
  End("sweep", 2);
  EXPECT_EQ(StateOf("sweep"), Job::STATE_FAILED);
  EXPECT_EQ(ReasonOf("sweep"), "ELEMENTS_FAILED");
  EXPECT_EQ(harness_.job("sweep").state.message(), "1 of its 3 elements have not succeeded");
}

TEST_F(SchedulerCoreArraysTest, NoMoreBeginThanMayAtOnce) {
  executor_.Connect();
  Submit("sweep", Array(6, /*max_parallel=*/2));
  EXPECT_EQ(Count(harness_, "PLACED"), 2);
  EXPECT_EQ(Count(harness_, "ARRAY_LIMIT"), 4);
  EXPECT_EQ(harness_.core().waiting_jobs(), 0u) << "they stand in no Queue";
  EXPECT_EQ(Element("sweep", 2).state.message(),
            "2 elements of projects/p/jobs/sweep have begun and not ended, as many as may at once "
            "(max_parallel)");
  EXPECT_EQ(
      ExplainJob(harness_.core().model(), Element("sweep", 2), {}, harness_.now().wall).summary(),
      Element("sweep", 2).state.message());
  // One that waits for its turn and is cancelled gives nobody a turn; one that has begun does.
  Cancel("sweep-3");
  EXPECT_EQ(Count(harness_, "PLACED"), 2);
  End("sweep", 1, /*exit_code=*/1);
  EXPECT_EQ(ReasonOfElement("sweep", 2), "PLACED");
  // A new leader counts the same.
  harness_.NewLeader();
  executor_.Connect();
  EXPECT_EQ(Count(harness_, "ARRAY_LIMIT"), 2);
  for (const int index : {0, 2, 4, 5}) End("sweep", index);
  EXPECT_EQ(StateOf("sweep"), Job::STATE_FAILED);
}

// Its place among those that may is kept over restarts and back-offs.
TEST_F(SchedulerCoreArraysTest, ARestartKeepsItsTurn) {
  executor_.Connect();
  JobSpec spec = Array(2, 1);
  spec.mutable_retry()->set_max_restarts(1);
  Submit("sweep", spec);
  End("sweep", 0, /*exit_code=*/1);
  EXPECT_EQ(ReasonOfElement("sweep", 0), "BACK_OFF");
  EXPECT_EQ(ReasonOfElement("sweep", 1), "ARRAY_LIMIT");
}

TEST_F(SchedulerCoreArraysTest, CancellingItCancelsAllInBoundedSteps) {
  executor_.Connect();
  Submit("sweep", Array(200, 4));
  RunAll();
  Cancel("sweep");
  EXPECT_GT(Count(harness_, "ARRAY_LIMIT"), 100);
  EXPECT_EQ(harness_.core().NextDeadline(), BootTime::InfinitePast());
  EXPECT_EQ(harness_.job("sweep").state.message(), "cancelled; its elements are being ended");
  // Whoever leads next goes on.
  harness_.NewLeader();
  executor_.Connect();
  Advance(absl::Seconds(1));
  EXPECT_EQ(StateOf("sweep"), Job::STATE_CANCELLED);
  for (int index = 0; index < 200; ++index) {
    EXPECT_EQ(Element("sweep", index).state.state(), Job::STATE_CANCELLED) << index;
  }
  EXPECT_LE(harness_.job(Uid("sweep", 150)).state.generation(), 0) << "nobody began meanwhile";
}

TEST_F(SchedulerCoreArraysTest, NamesThatAreTakenRefuseItWhole) {
  executor_.Connect();
  Submit("sweep-2", CoreHarness::Spec(1, 100));
  const absl::Status taken = Refused("sweep", Array(3));
  EXPECT_EQ(taken.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(taken.ToString().find("jobs/sweep-2 exists already"), std::string::npos) << taken;
  Submit("sweep", Array(2));
  EXPECT_EQ(Refused("sweep-1", CoreHarness::Spec(1, 100)).code(), absl::StatusCode::kAlreadyExists);
  const absl::Status too_long = Refused(std::string(61, 'a'), Array(11));
  EXPECT_EQ(too_long.code(), absl::StatusCode::kInvalidArgument) << too_long;
  CoreConfig config = Config();
  config.max_jobs = 10;
  CoreHarness small(config);
  EXPECT_EQ(Of<ReplyJob>(small.Submit("sweep", Array(10)))[0].job.status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Of<ReplyJob>(small.Submit("sweep", Array(9)))[0].job.ok());
}

// Once the first write of its step is stored the array is, with all its elements, whoever leads;
// the request id makes no second one.
TEST_F(SchedulerCoreArraysTest, IsMadeWholeOrNotAtAll) {
  for (const size_t writes : {0, 1, 2, 7, 12, 13}) {
    SCOPED_TRACE(writes);
    CoreHarness harness(Config());
    CreateJob create = harness.SubmitEvent("sweep", Array(12, 5));
    create.request_id = "again";
    create.body_hash = "body";
    harness.CrashIn(create, writes);
    EXPECT_EQ(harness.jobs().size(), writes == 0 ? 0u : 13u);
    std::set<int64_t> sequences;
    for (const auto& [uid, job] : harness.jobs()) sequences.insert(job.spec.submit_sequence());
    EXPECT_EQ(sequences.size(), harness.jobs().size());
    const auto again = Of<ReplyJob>(harness.Apply(create));
    ASSERT_EQ(again.size(), 1u);
    EXPECT_TRUE(again[0].job.ok()) << again[0].job.status();
    EXPECT_EQ(harness.jobs().size(), 13u);
    harness.Submit("later", CoreHarness::Spec(1, 100));
    for (const int64_t sequence : sequences) {
      EXPECT_LT(sequence, harness.job("later").spec.submit_sequence());
    }
    EXPECT_EQ(Count(harness, "ARRAY_LIMIT"), 7);
  }
}

// A leader that dies in the step in which an element ends: the array learns of it from the next.
TEST_F(SchedulerCoreArraysTest, ANewLeaderCountsWhatHasEnded) {
  for (size_t writes = 0; writes < 4; ++writes) {
    SCOPED_TRACE(writes);
    CoreHarness harness(Config());
    harness.Submit("sweep", Array(3, 1));
    harness.CrashIn(CancelOf(&harness, "sweep-0"), writes);
    harness.Advance(absl::Seconds(1));
    const bool ended = harness.job(ElementUid("sweep", 0)).final();
    EXPECT_EQ(RenderJob(harness.job("sweep")).array().ended(), ended ? 1 : 0);
    EXPECT_EQ(HasBegun(harness.job(ElementUid("sweep", 1))), ended);
    for (const char* id : {"sweep-1", "sweep-2", "sweep-0"}) {
      harness.Apply(CancelOf(&harness, id));
    }
    EXPECT_EQ(harness.job("sweep").state.state(), Job::STATE_FAILED);
  }
}

TEST_F(SchedulerCoreArraysTest, OthersWaitForTheWholeArray) {
  executor_.Connect();
  Submit("sweep", Array(2));
  Submit("report", After(CoreHarness::Spec(1, 1000), "sweep", JobDependency::CONDITION_SUCCEEDED));
  Submit("sorry",
         After(CoreHarness::Spec(1, 1000), "sweep", JobDependency::CONDITION_NOT_SUCCEEDED));
  Submit("only-0", After(CoreHarness::Spec(1, 1000), "sweep-0", JobDependency::CONDITION_ENDED));
  End("sweep", 0);
  EXPECT_EQ(StateOf("only-0"), Job::STATE_PREPARING);
  EXPECT_EQ(ReasonOf("report"), "DEPENDENCY");
  End("sweep", 1);
  EXPECT_EQ(StateOf("report"), Job::STATE_PREPARING);
  EXPECT_EQ(ReasonOf("sorry"), "DEPENDENCY_FAILED");
}

TEST_F(SchedulerCoreArraysTest, EachElementWaitsForTheOneOfItsIndex) {
  executor_.Connect();
  Submit("sweep", Array(3));
  const JobSpec spec = After(Array(3), "sweep", JobDependency::CONDITION_CORRESPONDING);
  Submit("score", spec);
  EXPECT_EQ(Element("score", 1).state.message(), "waits for projects/p/jobs/sweep-1 to succeed");
  End("sweep", 1);
  EXPECT_EQ(ReasonOfElement("score", 1), "PLACED");
  EXPECT_EQ(ReasonOfElement("score", 0), "DEPENDENCY");
  End("sweep", 2, /*exit_code=*/1);
  EXPECT_EQ(ReasonOfElement("score", 2), "DEPENDENCY_FAILED");
  // Those that have ended count, however.
  Submit("late", spec);
  EXPECT_EQ(ReasonOfElement("late", 0), "DEPENDENCY");
  EXPECT_EQ(ReasonOfElement("late", 1), "PLACED");
  EXPECT_EQ(ReasonOfElement("late", 2), "DEPENDENCY_FAILED");
  End("sweep", 0);
  EXPECT_EQ(ReasonOfElement("score", 0), "PLACED");
  EXPECT_EQ(ReasonOfElement("late", 0), "PLACED");
}

TEST_F(SchedulerCoreArraysTest, OnlyArraysOfOneSizeCorrespond) {
  executor_.Connect();
  Submit("sweep", Array(3));
  Submit("alone", CoreHarness::Spec(1, 100));
  const auto refused = [&](int size, const std::string& other) {
    return Refused("score", After(Array(size), other, JobDependency::CONDITION_CORRESPONDING));
  };
  EXPECT_NE(refused(4, "sweep").ToString().find("has 3 elements; expected an array of 4"),
            std::string::npos);
  EXPECT_NE(refused(3, "alone").ToString().find("is no array"), std::string::npos);
  EXPECT_NE(refused(3, "sweep-1").ToString().find("is no array"), std::string::npos);
  EXPECT_NE(refused(3, "nobody").ToString().find("does not exist"), std::string::npos);
}

// Elements leave for the archive one by one; what the array knows of them stays.
TEST_F(SchedulerCoreArraysTest, WhatIsInTheArchiveIsStillKnownToTheArray) {
  CoreConfig config = Config();
  config.keep_finished_for = absl::ZeroDuration();
  CoreHarness harness(config);
  FakeExecutor executor("local", 2, 4000, &harness);
  executor.Connect();
  harness.Deliver(harness.Submit("sweep", Array(3)));
  executor.PrepareAll();
  executor.RunAll();
  executor.End(absl::StrCat(ElementUid("sweep", 0), "/1/worker-0"), TaskEnd::CAUSE_EXITED, 0);
  executor.End(absl::StrCat(ElementUid("sweep", 1), "/1/worker-0"), TaskEnd::CAUSE_EXITED, 1);
  const std::vector<Effect> effects = harness.Advance(absl::Seconds(1));
  for (const ArchiveJobs& batch : Of<ArchiveJobs>(effects)) {
    JobsArchived archived;
    for (const Job& job : batch.jobs) archived.uids.push_back(job.uid());
    harness.Apply(archived);
  }
  ASSERT_EQ(harness.jobs().size(), 2u) << "the array and its last element";
  EXPECT_EQ(RenderJob(harness.job("sweep")).array().ended(), 2);
  const JobSpec after = After(Array(3), "sweep", JobDependency::CONDITION_CORRESPONDING);
  harness.Deliver(harness.Submit("score", after));
  EXPECT_EQ(harness.job(ElementUid("score", 0)).state.reason(), "PLACED");
  EXPECT_EQ(harness.job(ElementUid("score", 1)).state.reason(), "DEPENDENCY_FAILED");
  EXPECT_EQ(harness.job(ElementUid("score", 2)).state.reason(), "DEPENDENCY");
  harness.NewLeader();
  executor.Connect();
  EXPECT_EQ(RenderJob(harness.job("sweep")).array().succeeded(), 1);
  executor.End(absl::StrCat(ElementUid("sweep", 2), "/1/worker-0"), TaskEnd::CAUSE_EXITED, 0);
  EXPECT_EQ(harness.job("sweep").state.state(), Job::STATE_FAILED);
}

TEST_F(SchedulerCoreArraysTest, ElementsOfOneSingletonRunInOrderOfTheirIndex) {
  executor_.Connect();
  JobSpec spec = Array(3);
  spec.set_singleton("nightly");
  Submit("sweep", spec);
  for (int index = 0; index < 3; ++index) {
    for (int other = 0; other < 3; ++other) {
      EXPECT_EQ(ReasonOfElement("sweep", other), other < index    ? "SUCCEEDED"
                                                 : other == index ? "PLACED"
                                                                  : "DEPENDENCY");
    }
    End("sweep", index);
  }
  EXPECT_EQ(StateOf("sweep"), Job::STATE_SUCCEEDED);
}

TEST_F(SchedulerCoreArraysTest, TheLargestIsMadeInOneStepAndStartsAsFarAsThereIsRoom) {
  executor_.Connect();
  Submit("sweep", Array(1000));
  EXPECT_EQ(harness_.jobs().size(), 1001u);
  Advance(absl::Seconds(1));
  // Two Nodes of four cores each.
  EXPECT_EQ(Count(harness_, "PLACED"), 8);
  EXPECT_EQ(harness_.core().waiting_jobs(), 992u);
}

}  // namespace
}  // namespace capstan::scheduler
