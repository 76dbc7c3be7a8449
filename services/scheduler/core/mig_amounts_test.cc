#include "services/scheduler/core/mig_amounts.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/mig/layouts.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::scheduler {
namespace {

mig::Ask H100(const std::string& profile) {
  capstan::type::v1::MigSlice slice;
  slice.set_model("H100-80GB");
  slice.set_profile(profile);
  return *AskOf(slice);
}

MigSpot Spot(int gpu, const std::string& profile, int start) {
  capstan::type::v1::MigInstance instance;
  instance.set_gpu(gpu);
  instance.set_model("H100-80GB");
  instance.set_profile(profile);
  instance.set_start(start);
  return *SpotOf(instance);
}

MigAmounts Asking(const std::string& profile) {
  MigAmounts each;
  each.AddAsk(H100(profile));
  return each;
}

TEST(MigAmountsTest, WhatIsFreeIsWhatThereIsLessWhatIsHeld) {
  MigAmounts free;
  free.AddGpu(0, H100("1g.10gb").model);
  free.AddGpu(1, H100("1g.10gb").model);
  EXPECT_EQ(free.Fits(Asking("3g.40gb"), 100), 4);
  EXPECT_EQ(free.Fits(Asking("7g.80gb"), 100), 2);
  EXPECT_EQ(free.Fits(Asking("7g.80gb"), 1), 1);
  MigAmounts held;
  held.AddInstance(Spot(1, "3g.40gb", 4));
  free.Add(held, -1);
  EXPECT_EQ(free.Fits(Asking("3g.40gb"), 100), 3);
  EXPECT_EQ(free.Fits(Asking("7g.80gb"), 100), 1);
  EXPECT_EQ(free.Fits(held, 100), 0) << "it stands there";
  free.Add(held, 1);
  EXPECT_EQ(free.Fits(held, 100), 1);
  EXPECT_EQ(free.Gpus().size(), 2u);
}

TEST(MigAmountsTest, ChoosesAsLongAsOneFits) {
  MigAmounts free;
  free.AddGpu(3, H100("2g.20gb").model);
  for (int64_t left = free.Fits(Asking("2g.20gb"), 100); left > 0; --left) {
    EXPECT_EQ(free.Fits(Asking("2g.20gb"), 100), left);
    const auto spot = free.Choose(H100("2g.20gb"));
    ASSERT_TRUE(spot.has_value());
    EXPECT_EQ(spot->gpu, 3);
    free.AddInstance(*spot, -1);
  }
  EXPECT_FALSE(free.Choose(H100("2g.20gb")).has_value());
}

TEST(MigAmountsTest, WhatIsHeldOfAGpuThatHasGoneIsNotFree) {
  MigAmounts free;
  free.AddInstance(Spot(0, "7g.80gb", 0), -1);
  EXPECT_TRUE(free.Gpus().empty());
  EXPECT_EQ(free.Fits(Asking("1g.10gb"), 1), 0);
  free.AddGpu(1, H100("1g.10gb").model);
  EXPECT_EQ(free.Fits(Asking("7g.80gb"), 9), 1);
}

TEST(MigAmountsTest, KnowsNoOtherModelsProfilesOrPlacements) {
  capstan::type::v1::MigSlice slice;
  slice.set_model("H100-80GB");
  slice.set_profile("1g.5gb");
  EXPECT_FALSE(AskOf(slice).has_value());
  capstan::type::v1::MigInstance instance;
  instance.set_model("H100-80GB");
  instance.set_profile("3g.40gb");
  instance.set_start(1);
  EXPECT_FALSE(SpotOf(instance).has_value());
  instance.set_start(4);
  EXPECT_EQ(StartOf(*SpotOf(instance)), 4);
}

}  // namespace
}  // namespace capstan::scheduler
