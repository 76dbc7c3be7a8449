#include "services/scheduler/core/restored_record.h"

#include <cstdint>
#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/records.pb.h"

namespace capstan::scheduler {
namespace {

using records::v1::JobStateRecord;

JobStateRecord Restored(const JobStateRecord& record) {
  std::string value = record.SerializeAsString();
  PrepareRestoredRecord(JobStateKey("u-1"), &value);
  JobStateRecord restored;
  EXPECT_TRUE(restored.ParseFromString(value));
  return restored;
}

TEST(RestoredRecordTest, TheNextGenerationOfALiveJobIsAboveAnyThatMayHaveRun) {
  JobStateRecord running;
  running.set_generation(3);
  running.set_reason("STARTED");
  const JobStateRecord once = Restored(running);
  EXPECT_EQ(once.generation(), 3) << "the generation that runs is the one that ran";
  EXPECT_EQ(once.reason(), "STARTED");
  EXPECT_EQ(once.generation_floor(), 3 + kGenerationsUnknownToABackup);
  // A backup of a restored store, restored.
  EXPECT_GT(Restored(once).generation_floor(), once.generation_floor());
  // A Job that has not run, too.
  EXPECT_EQ(Restored(JobStateRecord()).generation_floor(), kGenerationsUnknownToABackup);
}

TEST(RestoredRecordTest, ADamagedRecordIsNotCountedOnFrom) {
  JobStateRecord last;
  last.set_generation(kMaxGeneration);
  EXPECT_EQ(Restored(last).generation_floor(), kMaxGeneration);
  JobStateRecord damaged;
  damaged.set_generation(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Restored(damaged).generation_floor(), 0);
}

TEST(RestoredRecordTest, WhatIsOverAndWhatIsNoJobStayAsTheyAre) {
  JobStateRecord over;
  over.set_generation(2);
  over.mutable_end_time()->set_seconds(1);
  EXPECT_EQ(Restored(over).generation_floor(), 0);
  std::string value = over.SerializeAsString();
  const std::string before = value;
  PrepareRestoredRecord(JobSpecKey("u-1"), &value);
  PrepareRestoredRecord("/capstan/data_loader/v1/jobs/state/u-1", &value);
  EXPECT_EQ(value, before);
  std::string damaged = "\x0f damaged";
  PrepareRestoredRecord(JobStateKey("u-1"), &damaged);
  EXPECT_EQ(damaged, "\x0f damaged");
}

}  // namespace
}  // namespace capstan::scheduler
