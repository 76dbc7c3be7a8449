#include "libs/mig/placed_instance.h"

#include <string>

#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::mig {
namespace {

using capstan::type::v1::MigInstance;

MigInstance Instance(int gpu, const std::string& profile, int start,
                     const std::string& model = "H100-80GB") {
  MigInstance instance;
  instance.set_gpu(gpu);
  instance.set_model(model);
  instance.set_profile(profile);
  instance.set_start(start);
  return instance;
}

void ExpectOverlap(const MigInstance& a, const MigInstance& b, bool expected) {
  EXPECT_EQ(Overlap(a, b), expected) << a.DebugString() << b.DebugString();
  EXPECT_EQ(Overlap(b, a), expected) << a.DebugString() << b.DebugString();
}

TEST(PlacedInstanceTest, OverlapsWhereAMemorySliceIsOfBoth) {
  ExpectOverlap(Instance(0, "3g.40gb", 4), Instance(0, "1g.10gb", 5), true);
  ExpectOverlap(Instance(0, "3g.40gb", 4), Instance(0, "3g.40gb", 4), true);
  ExpectOverlap(Instance(0, "7g.80gb", 0), Instance(0, "1g.10gb", 6), true);
  ExpectOverlap(Instance(0, "3g.40gb", 4), Instance(0, "1g.10gb", 3), false);
  ExpectOverlap(Instance(0, "3g.40gb", 0), Instance(0, "3g.40gb", 4), false);
  ExpectOverlap(Instance(0, "7g.80gb", 0), Instance(1, "7g.80gb", 0), false);
}

TEST(PlacedInstanceTest, WhatIsNotKnownHasTheWholeGpu) {
  ExpectOverlap(Instance(0, "9g.99gb", 4), Instance(0, "1g.10gb", 0), true);
  ExpectOverlap(Instance(0, "1g.10gb", 4, "H999"), Instance(0, "1g.10gb", 0), true);
  ExpectOverlap(Instance(1, "9g.99gb", 4), Instance(0, "1g.10gb", 0), false);
}

TEST(PlacedInstanceTest, IsTheSameWhereNothingDiffers) {
  const MigInstance one = Instance(0, "1g.10gb", 3);
  EXPECT_TRUE(IsSameInstance(one, one));
  EXPECT_FALSE(IsSameInstance(one, Instance(1, "1g.10gb", 3)));
  EXPECT_FALSE(IsSameInstance(one, Instance(0, "1g.20gb", 3)));
  EXPECT_FALSE(IsSameInstance(one, Instance(0, "1g.10gb", 4)));
  EXPECT_FALSE(IsSameInstance(one, Instance(0, "1g.10gb", 3, "A100-80GB")));
}

TEST(PlacedInstanceTest, StandsOnlyWhereItsProfileMay) {
  EXPECT_TRUE(CheckPlacement(Instance(0, "3g.40gb", 4)).ok());
  for (const MigInstance& wrong :
       {Instance(0, "3g.40gb", 2), Instance(0, "3g.40gb", -1), Instance(0, "3g.40gb", 36),
        Instance(0, "9g.99gb", 0), Instance(0, "3g.40gb", 4, "H999")}) {
    const absl::Status status = CheckPlacement(wrong);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << wrong.DebugString() << status;
    EXPECT_EQ(status::Reason(status), "WRONG_MIG_PLACEMENT");
  }
}

}  // namespace
}  // namespace capstan::mig
