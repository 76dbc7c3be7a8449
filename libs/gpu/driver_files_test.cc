#include "libs/gpu/driver_files.h"

#include "gtest/gtest.h"

namespace capstan::gpu {
namespace {

constexpr char kDevices[] =
    "Character devices:\n"
    "  1 mem\n"
    "195 nvidia\n"
    "195 nvidia-modeset\n"
    "195 nvidiactl\n"
    "235 nvidia-caps\n"
    "510 nvidia-uvm\n"
    "\n"
    "Block devices:\n"
    "  7 loop\n"
    "259 nvidia-caps-imex-channels\n";

TEST(DriverFilesTest, MajorsAreThoseOfCharacterDevicesOfExactlyTheName) {
  EXPECT_EQ(CharacterMajor(kDevices, "mem"), 1);
  EXPECT_EQ(CharacterMajor(kDevices, "nvidia"), 195);
  EXPECT_EQ(CharacterMajor(kDevices, "nvidia-uvm"), 510);
  EXPECT_EQ(CharacterMajor(kDevices, "nvidia-caps"), 235);
  EXPECT_EQ(CharacterMajor(kDevices, "nvidia-c"), absl::nullopt);
  EXPECT_EQ(CharacterMajor(kDevices, "loop"), absl::nullopt) << "a block device";
  EXPECT_EQ(CharacterMajor("Character devices:\n-1 nvidia\n", "nvidia"), absl::nullopt);
  EXPECT_EQ(CharacterMajor("Character devices:\n4096 nvidia\n", "nvidia"), absl::nullopt);
  EXPECT_EQ(CharacterMajor("Character devices:\n195\v nvidia\n", "nvidia"), absl::nullopt);
  EXPECT_EQ(CharacterMajor("195 nvidia\n", "nvidia"), absl::nullopt);
  EXPECT_EQ(CharacterMajor("", "nvidia"), absl::nullopt);
}

TEST(DriverFilesTest, ACapabilitySaysItsMinor) {
  EXPECT_EQ(CapabilityMinor("DeviceFileMinor: 30\nDeviceFileMode: 292\nDeviceFileModify: 1\n"), 30);
  EXPECT_EQ(CapabilityMinor("DeviceFileMode: 292\nDeviceFileMinor: 3"), 3);
  EXPECT_EQ(CapabilityMinor("DeviceFileMode: 292\n"), absl::nullopt);
  EXPECT_EQ(CapabilityMinor("DeviceFileMinor: ../../sda\n"), absl::nullopt);
  EXPECT_EQ(CapabilityMinor("DeviceFileMinor: -1\n"), absl::nullopt);
  EXPECT_EQ(CapabilityMinor("DeviceFileMinor: 1048576\n"), absl::nullopt);
  EXPECT_EQ(CapabilityMinor(""), absl::nullopt);
}

}  // namespace
}  // namespace capstan::gpu
