#include "services/telemetry/adapters/sqlite_job_archive.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"
#include "libs/time/proto_time.h"
#include "libs/time/system_clock.h"

namespace capstan::telemetry {
namespace {

using scheduler::v1::Job;

class SqliteJobArchiveTest : public testing::Test {
 protected:
  SqliteJobArchiveTest() {
    options_.path = absl::StrCat(testing::TempDir(), "/archive-", getpid(), "-",
                                 testing::UnitTest::GetInstance()->current_test_info()->name());
    now_ = clock_.Read().wall;
    Open();
  }
  void Open() {
    archive_.reset();
    auto opened = SqliteJobArchive::Open(options_, &clock_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    archive_ = *std::move(opened);
  }

  // `age`: how long ago it ended; it was made an hour before.
  Job Ended(const std::string& uid, absl::Duration age, const std::string& id = "",
            const std::string& project = "p") {
    Job job;
    job.set_name(absl::StrCat("projects/", project, "/jobs/", id.empty() ? uid : id));
    job.set_uid(uid);
    job.set_state(Job::STATE_SUCCEEDED);
    job.mutable_spec()->set_queue("queues/default");
    *job.mutable_create_time() = ToProto(now_ - age - absl::Hours(1));
    *job.mutable_end_time() = ToProto(now_ - age);
    return job;
  }
  absl::Status Put(std::vector<Job> jobs) {
    absl::Status result;
    absl::Notification done;
    archive_->Put(std::move(jobs), [&](absl::Status status) {
      result = std::move(status);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }
  absl::StatusOr<v1::ArchivedJob> Get(const std::string& name, const std::string& uid = "") {
    absl::StatusOr<v1::ArchivedJob> result;
    absl::Notification done;
    archive_->Get(name, uid, [&](absl::StatusOr<v1::ArchivedJob> got) {
      result = std::move(got);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }
  SqliteJobArchive::Page Page(const std::string& filter, const SqliteJobArchive::Position& after,
                              int limit, const std::string& project = "projects/p") {
    SqliteJobArchive::Page page;
    absl::Notification done;
    archive_->List(project, *ParseArchiveFilter(filter), after, limit,
                   [&](absl::StatusOr<SqliteJobArchive::Page> got) {
                     EXPECT_TRUE(got.ok()) << got.status();
                     if (got.ok()) page = *std::move(got);
                     done.Notify();
                   });
    done.WaitForNotification();
    return page;
  }
  // Uids of all pages.
  std::vector<std::string> List(const std::string& filter, int limit = 100,
                                const std::string& project = "projects/p") {
    std::vector<std::string> uids;
    SqliteJobArchive::Position after;
    while (true) {
      const SqliteJobArchive::Page page = Page(filter, after, limit, project);
      for (const v1::ArchivedJob& archived : page.jobs) uids.push_back(archived.job().uid());
      if (!page.next.has_value()) return uids;
      after = *page.next;
    }
  }
  using Uids = std::vector<std::string>;

  SystemClock clock_;
  absl::Time now_;
  SqliteJobArchive::Options options_;
  std::unique_ptr<SqliteJobArchive> archive_;
};

TEST_F(SqliteJobArchiveTest, WhatIsPutIsThereWholeAndAgainAfterOpening) {
  Job job = Ended("u1", absl::Hours(1));
  job.set_message("all is well");
  ASSERT_TRUE(Put({job}).ok());
  Open();
  const auto got = Get("projects/p/jobs/u1");
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->job().SerializeAsString(), job.SerializeAsString());
  EXPECT_GE(ToTime(got->archive_time()), now_ - absl::Seconds(1));
  EXPECT_TRUE(absl::IsNotFound(Get("projects/p/jobs/u2").status()));
  EXPECT_TRUE(absl::IsNotFound(Get("projects/p/jobs/u1", "other uid").status()));
}

TEST_F(SqliteJobArchiveTest, PuttingAgainChangesNothing) {
  ASSERT_TRUE(Put({Ended("u1", absl::Hours(1))}).ok());
  Job other = Ended("u1", absl::Hours(5));
  ASSERT_TRUE(Put({other, Ended("u2", absl::Hours(2))}).ok());
  EXPECT_EQ(List(""), (Uids{"u1", "u2"}));
  EXPECT_EQ(Get("projects/p/jobs/u1")->job().end_time().seconds(),
            absl::ToUnixSeconds(now_ - absl::Hours(1)));
}

TEST_F(SqliteJobArchiveTest, ANameUsedAgainGivesTheNewest) {
  ASSERT_TRUE(
      Put({Ended("new", absl::Hours(1), "train"), Ended("old", absl::Hours(9), "train")}).ok());
  EXPECT_EQ(Get("projects/p/jobs/train")->job().uid(), "new");
  EXPECT_EQ(Get("projects/p/jobs/train", "old")->job().uid(), "old");
  EXPECT_EQ(List("job=train"), (Uids{"new", "old"}));
}

TEST_F(SqliteJobArchiveTest, ListsByEveryTermNewestFirstWithinTheProject) {
  Job failed = Ended("failed", absl::Hours(2));
  failed.set_state(Job::STATE_FAILED);
  Job labelled = Ended("labelled", absl::Hours(3));
  (*labelled.mutable_spec()->mutable_labels())["team"] = "a";
  (*labelled.mutable_spec()->mutable_labels())["stage"] = "b";
  Job queued = Ended("queued", absl::Hours(4));
  queued.mutable_spec()->set_queue("queues/big");
  ASSERT_TRUE(Put({queued, failed, Ended("u1", absl::Hours(1)), labelled,
                   Ended("theirs", absl::Hours(1), "", "other")})
                  .ok());
  EXPECT_EQ(List(""), (Uids{"u1", "failed", "labelled", "queued"}));
  EXPECT_EQ(List("state=FAILED"), Uids{"failed"});
  EXPECT_EQ(List("queue=queues/big"), Uids{"queued"});
  EXPECT_EQ(List("labels.team=a AND labels.stage=b"), Uids{"labelled"});
  EXPECT_EQ(List("labels.team=b"), Uids{});
  EXPECT_EQ(List("uid=queued"), Uids{"queued"});
  EXPECT_EQ(List("uid=theirs"), Uids{}) << "of another project";
  const auto time = [&](absl::Duration age) { return absl::FormatTime(now_ - age); };
  EXPECT_EQ(List(absl::StrCat("end_time>=", time(absl::Minutes(150)))), (Uids{"u1", "failed"}));
  EXPECT_EQ(List(absl::StrCat("end_time<", time(absl::Minutes(150)))),
            (Uids{"labelled", "queued"}));
  EXPECT_EQ(List("", 100, "projects/other"), Uids{"theirs"});
  EXPECT_EQ(List("", 100, "projects/none"), Uids{});
}

TEST_F(SqliteJobArchiveTest, PagesAreBoundedAndGiveEachJobOnce) {
  options_.page_rows = 7;
  Open();
  Uids all;
  for (int i = 0; i < 100; ++i) {
    all.push_back(absl::StrCat("u", 2000 - i));
    Job job = Ended(all.back(), absl::Minutes(i / 3));
    if (i % 10 == 0) job.set_state(Job::STATE_FAILED);
    ASSERT_TRUE(Put({job}).ok());
  }
  EXPECT_EQ(List("", 3), all) << "of equal times the higher uid first";
  EXPECT_EQ(List("", 100), all);
  EXPECT_EQ(List("state=FAILED", 3).size(), 10u);
  // What comes or goes between pages does not make others appear twice or not at all.
  const SqliteJobArchive::Page first = Page("", {}, 5);
  ASSERT_EQ(first.jobs.size(), 5u);
  ASSERT_TRUE(Put({Ended("newer", -absl::Hours(1))}).ok());
  EXPECT_EQ(Page("", *first.next, 1).jobs[0].job().uid(), all[5]);
}

TEST_F(SqliteJobArchiveTest, TheOldestLeaveBeyondTimeAndNumber) {
  options_.keep_for = absl::Hours(100);
  options_.max_jobs = 3;
  Open();
  ASSERT_TRUE(Put({Ended("old", absl::Hours(101)), Ended("u1", absl::Hours(1)),
                   Ended("u2", absl::Hours(2)), Ended("u3", absl::Hours(3))})
                  .ok());
  EXPECT_EQ(List(""), (Uids{"u1", "u2", "u3"}));
  ASSERT_TRUE(Put({Ended("u0", absl::ZeroDuration())}).ok());
  EXPECT_EQ(List(""), (Uids{"u0", "u1", "u2"}));
}

TEST_F(SqliteJobArchiveTest, IsOwnedByOneProcess) {
  EXPECT_EQ(status::Reason(SqliteJobArchive::Open(options_, &clock_).status()),
            store::kReasonLocked);
}

// What was acknowledged survives kill -9.
TEST_F(SqliteJobArchiveTest, WhatWasAcknowledgedSurvivesAKill) {
  archive_.reset();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Open();
    for (int i = 0;; ++i) {
      if (!Put({Ended(absl::StrCat("u", i), absl::Hours(1))}).ok()) _exit(3);
      if (write(ends[1], &i, sizeof(i)) != sizeof(i)) _exit(4);
    }
  }
  close(ends[1]);
  int last = -1;
  while (last < 40) ASSERT_EQ(read(ends[0], &last, sizeof(last)), ssize_t{sizeof(last)});
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  while (read(ends[0], &last, sizeof(last)) == sizeof(last)) {
  }
  close(ends[0]);
  Open();
  for (int i = 0; i <= last; ++i) {
    EXPECT_TRUE(Get(absl::StrCat("projects/p/jobs/u", i)).ok()) << i;
  }
}

}  // namespace
}  // namespace capstan::telemetry
