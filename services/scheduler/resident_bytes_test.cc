// What a Job takes that waits; docs/operations/performance.md has the figures for more of them.
#include "services/scheduler/resident_bytes.h"

#include "gtest/gtest.h"

namespace capstan::scheduler {
namespace {

// Enough that the kinds of Jobs, a thousand, hardly count.
constexpr int kJobs = 20000;
constexpr double kBar = 1024;

TEST(ResidentBytesTest, OfJobsThatAreAlike) {
  const auto resident = MeasureResidentBytes(kJobs, WaitingSpecs::kAlike);
  ASSERT_TRUE(resident.ok()) << resident.status();
  EXPECT_GT(resident->view, 100) << "nothing was measured";
  EXPECT_LE(resident->view + resident->engine, kBar);
}

TEST(ResidentBytesTest, OfJobsOfWhichNoTwoAreTheSame) {
  const auto resident = MeasureResidentBytes(kJobs, WaitingSpecs::kLarge);
  ASSERT_TRUE(resident.ok()) << resident.status();
  EXPECT_GE(resident->spec_bytes, 1000);
  EXPECT_LE(resident->view + resident->engine, kBar);
}

}  // namespace
}  // namespace capstan::scheduler
