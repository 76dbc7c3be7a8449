#include "tools/capstan/cli/archived_jobs.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace capstan::cli {
namespace {

using scheduler::v1::Job;

Job Made(const std::string& uid, int64_t created, int64_t ended = 0) {
  Job job;
  job.set_uid(uid);
  job.mutable_create_time()->set_seconds(created);
  if (ended > 0) job.mutable_end_time()->set_seconds(ended);
  return job;
}

std::vector<std::string> Uids(const std::vector<Job>& jobs) {
  std::vector<std::string> uids;
  for (const Job& job : jobs) uids.push_back(job.uid());
  return uids;
}

TEST(ArchivedJobsTest, EachJobIsThereOnceNewestFirst) {
  const std::vector<Job> live = {Made("runs", 50), Made("both", 20, 40), Made("kept", 10, 30)};
  const std::vector<Job> archived = {Made("both", 20, 40), Made("b", 15, 29), Made("a", 15, 35),
                                     Made("old", 1, 2)};
  EXPECT_EQ(Uids(MergeJobs(live, archived, absl::UnixEpoch())),
            (std::vector<std::string>{"runs", "both", "b", "a", "kept", "old"}));
  EXPECT_EQ(Uids(MergeJobs(live, archived, absl::FromUnixSeconds(30))),
            (std::vector<std::string>{"runs", "both", "a", "kept"}));
}

TEST(ArchivedJobsTest, AgesAreDaysOrDurations) {
  EXPECT_EQ(*ParseAge("7d"), absl::Hours(168));
  EXPECT_EQ(*ParseAge("36h"), absl::Hours(36));
  EXPECT_EQ(*ParseAge("1h30m"), absl::Minutes(90));
  for (const char* wrong : {"d", "-1d", "+7d", "+36h", " 7d", "7 d", "1.5d", "7", "week", ""}) {
    EXPECT_FALSE(ParseAge(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace capstan::cli
