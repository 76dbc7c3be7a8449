#include "libs/mig/profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "libs/status/error.h"

namespace capstan::mig {
namespace {

using ::testing::HasSubstr;

DeviceModel Model(const std::string& name) { return FindDeviceModel(name).value(); }

TEST(ProfilesTest, EveryInstanceStaysOnItsGpu) {
  for (const DeviceModel& model : DeviceModels()) {
    for (const Profile& profile : model.profiles) {
      int starts = 0;
      for (int start = 0; start < 32; ++start) {
        if ((profile.starts >> start & 1) == 0) continue;
        ++starts;
        EXPECT_LE(start + profile.memory_slices, model.memory_slices) << profile.name;
      }
      EXPECT_LE(profile.most, starts) << profile.name;
      EXPECT_LE(profile.compute_slices * profile.most, model.compute_slices) << profile.name;
      EXPECT_TRUE(profile.most == starts || profile.media_extensions) << profile.name;
    }
  }
}

TEST(ProfilesTest, NamesAreFoundAsProfileAndAsResource) {
  for (const DeviceModel& model : DeviceModels()) {
    for (size_t p = 0; p < model.profiles.size(); ++p) {
      EXPECT_EQ(ParseProfile(model, model.profiles[p].name).value(), static_cast<int>(p));
      EXPECT_EQ(ParseProfile(model, ResourceName(model.profiles[p])).value(), static_cast<int>(p));
    }
  }
  EXPECT_EQ(ResourceName(Model("H100-80GB").profiles[1]), "nvidia.com/mig-1g.10gb.me");
}

// The reference's table: starts and sizes as `nvidia-smi mig -lgipp` prints them.
TEST(ProfilesTest, PlacementsAreTheDrivers) {
  const DeviceModel model = Model("A100-40GB");
  const auto is = [&model](const std::string& name, uint32_t starts, int size, int compute,
                           int most) {
    const Profile& profile = model.profiles[ParseProfile(model, name).value()];
    EXPECT_EQ(profile.starts, starts) << name;
    EXPECT_EQ(profile.memory_slices, size) << name;
    EXPECT_EQ(profile.compute_slices, compute) << name;
    EXPECT_EQ(profile.most, most) << name;
  };
  is("1g.5gb", 0b1111111, 1, 1, 7);
  is("1g.5gb+me", 0b1111111, 1, 1, 1);
  is("1g.10gb", 0b1010101, 2, 1, 4);
  is("2g.10gb", 0b0010101, 2, 2, 3);
  is("3g.20gb", 0b0010001, 4, 3, 2);
  is("4g.20gb", 0b0000001, 4, 4, 1);
  is("7g.40gb", 0b0000001, 8, 7, 1);
}

TEST(ProfilesTest, ErrorsSayWhatWasFoundAndExpected) {
  const DeviceModel model = Model("A100-40GB");
  for (const char* wrong :
       {"", "1g", "1g.5gb ", "MIG 1g.5gb", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb+me",
        "1g.5gb.me", "8g.40gb", "nvidia.com/mig-"}) {
    const absl::Status status = ParseProfile(model, wrong).status();
    EXPECT_EQ(status::Reason(status), "WRONG_MIG_PROFILE") << wrong;
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected one of A100-40GB: 1g.5gb, "));
  }
  EXPECT_THAT(std::string(ParseProfile(model, "3g.71gb").status().message()),
              HasSubstr("found \"3g.71gb\", a profile of H200-141GB; expected"));
  EXPECT_LT(ParseProfile(model, std::string(1 << 20, 'x')).status().message().size(), 400U);
  EXPECT_EQ(status::Reason(FindDeviceModel("V100").status()), "UNKNOWN_MIG_MODEL");
}

TEST(ProfilesTest, DriverWithFewerProfiles) {
  const DeviceModel model = Model("A100-40GB");
  const DeviceModel fewer = WithoutProfiles(model, {"1g.5gb+me", "1g.10gb"}).value();
  EXPECT_EQ(fewer.profiles.size(), 5U);
  EXPECT_FALSE(ParseProfile(fewer, "1g.10gb").ok());
  EXPECT_FALSE(WithoutProfiles(fewer, {"1g.10gb"}).ok());
}

TEST(ProfilesTest, MemorySlicesHaveANameOfTheModel) {
  EXPECT_EQ(SliceResource(DeviceModels()[static_cast<size_t>(ModelIndex("H100-80GB"))]),
            "mig/h100-80gb");
  for (const DeviceModel& model : DeviceModels())
    EXPECT_TRUE(IsSliceResource(SliceResource(model)));
  EXPECT_FALSE(IsSliceResource("nvidia.com/mig-1g.10gb"));
  EXPECT_EQ(ModelIndex("H100"), -1);
}

}  // namespace
}  // namespace capstan::mig
