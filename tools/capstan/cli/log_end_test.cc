#include "tools/capstan/cli/log_end.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace capstan::cli {
namespace {

using scheduler::v1::Job;
using ::testing::ElementsAre;

telemetry::v1::Record Of(const char* kind, int generation, int index) {
  telemetry::v1::Record record;
  record.set_kind(kind);
  auto& attributes = *record.mutable_attributes();
  attributes["generation"] = absl::StrCat(generation);
  attributes["group"] = "workers";
  attributes["index"] = absl::StrCat(index);
  attributes["rank"] = absl::StrCat(index);
  return record;
}

Job Gang(Job::State state, int generation, int tasks) {
  Job job;
  job.set_state(state);
  job.set_generation(generation);
  for (int i = 0; i < tasks; ++i) {
    auto* task = job.add_tasks();
    task->set_group("workers");
    task->set_index(i);
    task->set_rank(i);
    task->set_pid(100 + i);
  }
  return job;
}

TEST(LogEndTest, AllTasksOfTheLastGenerationMustBeClosed) {
  LogEnd end(absl::nullopt, absl::nullopt);
  end.OnCaughtUp();
  end.OnRecord(Of("log", 1, 0));
  end.OnRecord(Of("end", 1, 0));
  end.OnJob(Gang(Job::STATE_RUNNING, 1, 2));
  EXPECT_FALSE(end.complete());
  end.OnJob(Gang(Job::STATE_SUCCEEDED, 1, 2));
  EXPECT_TRUE(end.job_ended());
  EXPECT_FALSE(end.complete());
  EXPECT_THAT(end.Open(), ElementsAre("generation 1 workers-1"));
  end.OnRecord(Of("end", 1, 1));
  EXPECT_TRUE(end.complete());
}

TEST(LogEndTest, EndsThatCameBeforeTheJobsEndCount) {
  LogEnd end(absl::nullopt, absl::nullopt);
  end.OnRecord(Of("end", 3, 0));
  end.OnRecord(Of("end", 3, 1));
  end.OnCaughtUp();
  EXPECT_FALSE(end.complete());
  end.OnJob(Gang(Job::STATE_FAILED, 3, 2));
  EXPECT_TRUE(end.complete());
}

TEST(LogEndTest, ALineOfAFormerGenerationIsWaitedForToo) {
  LogEnd end(absl::nullopt, absl::nullopt);
  end.OnRecord(Of("log", 1, 1));
  end.OnRecord(Of("end", 2, 0));
  end.OnCaughtUp();
  end.OnJob(Gang(Job::STATE_SUCCEEDED, 2, 1));
  EXPECT_THAT(end.Open(), ElementsAre("generation 1 workers-1"));
  end.OnRecord(Of("end", 1, 1));
  EXPECT_TRUE(end.complete());
}

TEST(LogEndTest, WhatWasThereAtFirstMustHaveBeenRead) {
  LogEnd end(absl::nullopt, absl::nullopt);
  end.OnJob(Gang(Job::STATE_CANCELLED, 0, 0));
  EXPECT_FALSE(end.complete());
  end.OnCaughtUp();
  EXPECT_TRUE(end.complete());
}

TEST(LogEndTest, PeopleAreToldOfAFewTasksAndHowManyThereAreBeside) {
  EXPECT_EQ(LogEnd::Describe({}), "");
  EXPECT_EQ(LogEnd::Describe({"a", "b", "c"}), "a, b, c");
  EXPECT_EQ(LogEnd::Describe({"a", "b", "c", "d", "e"}), "a, b, c and 2 more");
}

TEST(LogEndTest, FiltersNarrowWhatIsWaitedFor) {
  LogEnd rank(1, absl::nullopt);
  rank.OnCaughtUp();
  rank.OnJob(Gang(Job::STATE_SUCCEEDED, 2, 4));
  EXPECT_THAT(rank.Open(), ElementsAre("generation 2 workers-1"));
  LogEnd generation(absl::nullopt, 1);
  generation.OnCaughtUp();
  generation.OnJob(Gang(Job::STATE_SUCCEEDED, 2, 4));
  EXPECT_TRUE(generation.complete());
}

TEST(LogEndTest, TasksThatNeverStartedAndGapsOfRetentionCountForNothing) {
  LogEnd end(absl::nullopt, absl::nullopt);
  end.OnCaughtUp();
  telemetry::v1::Record gap;
  gap.set_kind("gap");
  end.OnRecord(gap);
  Job job = Gang(Job::STATE_CANCELLED, 1, 2);
  for (auto& task : *job.mutable_tasks()) task.clear_pid();
  end.OnJob(job);
  EXPECT_TRUE(end.complete());
}

}  // namespace
}  // namespace capstan::cli
