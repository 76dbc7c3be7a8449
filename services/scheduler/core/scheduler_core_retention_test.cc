// Ended Jobs leave the store only once the archive has acknowledged them.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/core_test_fixture.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::type::v1::TaskEnd;

class RetentionTest : public SchedulerCoreTest {
 protected:
  RetentionTest() { executor_.Connect(); }

  void Finish(const std::string& id) {
    RunJob(id, CoreHarness::Spec(1, 100));
    executor_.End(absl::StrCat(id, "/1/worker-0"), TaskEnd::CAUSE_EXITED);
    ASSERT_EQ(StateOf(id), Job::STATE_SUCCEEDED);
  }
  // What the archive is asked to take until so much time has passed.
  std::vector<std::string> Asked(absl::Duration d) {
    std::vector<std::string> uids;
    for (const ArchiveJobs& batch : Of<ArchiveJobs>(harness_.Advance(d))) {
      for (const Job& job : batch.jobs) uids.push_back(job.uid());
    }
    return uids;
  }
  int RecordsOf(const std::string& uid) const {
    int records = 0;
    for (const auto& [key, value] : harness_.records()) {
      records += absl::StrContains(key, absl::StrCat("/", uid)) ? 1 : 0;
    }
    return records;
  }
  const absl::Duration keep_ = harness_.config().keep_finished_for;
  using Uids = std::vector<std::string>;
};

TEST_F(RetentionTest, AJobStaysUntilItsTimeIsOverAndTheArchiveHasIt) {
  Finish("a");
  EXPECT_EQ(Asked(keep_ - absl::Minutes(1)), Uids{});
  EXPECT_EQ(Asked(absl::Minutes(2)), Uids{"a"});
  EXPECT_EQ(StateOf("a"), Job::STATE_SUCCEEDED) << "the archive has not answered";
  EXPECT_GT(RecordsOf("a"), 3);
  EXPECT_EQ(Asked(absl::Hours(10)), Uids{}) << "one request at a time";
  harness_.Apply(JobsArchived{{"a"}});
  EXPECT_EQ(harness_.core().model().FindJob("a"), nullptr);
  EXPECT_EQ(harness_.core().model().FindJobByName("projects/p/jobs/a"), nullptr);
  EXPECT_EQ(RecordsOf("a"), 0);
  EXPECT_FALSE(harness_.core().NextDeadline().has_value() &&
               *harness_.core().NextDeadline() <= harness_.now().boot);
  // A second answer changes nothing.
  harness_.Apply(JobsArchived{{"a"}});
  // The name is free.
  Submit("a", CoreHarness::Spec(1, 100));
  EXPECT_EQ(StateOf("a"), Job::STATE_QUEUED);
}

TEST_F(RetentionTest, WhatTheArchiveDoesNotTakeIsOfferedAgain) {
  Finish("a");
  ASSERT_EQ(Asked(keep_ + absl::Minutes(1)), Uids{"a"});
  harness_.Apply(ArchiveFailed{{"a"}});
  EXPECT_EQ(Asked(harness_.config().archive_retry - absl::Seconds(1)), Uids{});
  EXPECT_EQ(Asked(absl::Seconds(2)), Uids{"a"});
}

TEST_F(RetentionTest, ANewLeaderOffersAgainAndOldAnswersCountForNothing) {
  Finish("a");
  ASSERT_EQ(Asked(keep_ + absl::Minutes(1)), Uids{"a"});
  harness_.NewLeader();
  harness_.Apply(JobsArchived{{"a"}});
  EXPECT_EQ(StateOf("a"), Job::STATE_SUCCEEDED) << "this leader has not asked";
  EXPECT_EQ(Asked(absl::Seconds(1)), Uids{"a"});
  // Killed before the deletion is stored: it is there, whole, and offered again.
  harness_.CrashIn(JobsArchived{{"a"}}, 0);
  EXPECT_EQ(Asked(absl::Seconds(1)), Uids{"a"});
  harness_.CrashIn(JobsArchived{{"a"}}, 1);
  EXPECT_EQ(RecordsOf("a"), 0);
  EXPECT_EQ(Asked(keep_), Uids{});
}

TEST_F(RetentionTest, WhatHasNotEndedStaysHoweverOld) {
  RunJob("runs", CoreHarness::Spec(1, 100));
  Submit("waits", CoreHarness::Spec(1, 100'000));
  EXPECT_EQ(Asked(keep_ * 3), Uids{});
}

TEST_F(RetentionTest, BatchesAreBoundedAndFollowEachOther) {
  constexpr int kJobs = 70;
  for (int i = 0; i < kJobs; ++i) Finish(absl::StrCat("j", i));
  std::vector<size_t> sizes;
  int left = kJobs;
  Uids asked = Asked(keep_ + absl::Minutes(1));
  while (!asked.empty()) {
    sizes.push_back(asked.size());
    harness_.Apply(JobsArchived{asked});
    left -= static_cast<int>(asked.size());
    asked = Asked(absl::Seconds(1));
  }
  EXPECT_EQ(left, 0);
  EXPECT_EQ(sizes, (std::vector<size_t>{32, 32, 6}));
}

class FewFinishedTest : public ::testing::Test {
 protected:
  static CoreConfig Config() {
    CoreConfig config;
    config.min_fence_after = absl::Seconds(1);
    config.max_finished_jobs = 2;
    config.max_jobs = 3;
    return config;
  }
  void Finish(const std::string& id) {
    executor_.Take(harness_.Submit(id, CoreHarness::Spec(1, 100)));
    executor_.PrepareAll();
    executor_.RunAll();
    executor_.End(absl::StrCat(id, "/1/worker-0"), TaskEnd::CAUSE_EXITED);
    harness_.Advance(absl::Seconds(1));
  }

  CoreHarness harness_{Config()};
  FakeExecutor executor_{"local", 2, 4000, &harness_};
};

TEST_F(FewFinishedTest, BeyondTheirNumberTheOldestLeaveEarly) {
  executor_.Connect();
  Finish("a");
  Finish("b");
  executor_.Take(harness_.Submit("c", CoreHarness::Spec(1, 100)));
  executor_.PrepareAll();
  executor_.RunAll();
  executor_.End("c/1/worker-0", TaskEnd::CAUSE_EXITED);
  const auto asked = Of<ArchiveJobs>(harness_.Advance(absl::Seconds(1)));
  ASSERT_EQ(asked.size(), 1u);
  ASSERT_EQ(asked[0].jobs.size(), 1u);
  EXPECT_EQ(asked[0].jobs[0].uid(), "a");
  EXPECT_EQ(asked[0].jobs[0].state(), Job::STATE_SUCCEEDED);
  EXPECT_TRUE(asked[0].jobs[0].has_end_time());
}

// Ended Jobs do not take the room of those that are to run, until the archive has been away for
// long.
TEST_F(FewFinishedTest, NewJobsAreShedOnlyAtTheSumOfBothBounds) {
  executor_.Connect();
  for (const char* id : {"a", "b", "c", "d", "e"}) Finish(id);
  CreateJob event;
  event.call = harness_.next_call();
  event.uid = "f";
  event.job_id = "f";
  event.project = "projects/p";
  event.spec = CoreHarness::Spec(1, 100);
  event.spec.set_queue("queues/default");
  const auto replies = Of<ReplyJob>(harness_.Apply(event));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(status::Reason(replies[0].job.status()), "TOO_MANY_JOBS");
}

}  // namespace
}  // namespace capstan::scheduler
