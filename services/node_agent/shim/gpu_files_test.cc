#include "services/node_agent/shim/gpu_files.h"

#include <sys/sysmacros.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimSpec;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kDevices[] =
    "Character devices:\n"
    "195 nvidia\n"
    "195 nvidiactl\n"
    "235 nvidia-caps\n"
    "510 nvidia-uvm\n";

ShimSpec::Gpus Gpus(const std::vector<int>& minors, const std::vector<int>& capabilities = {}) {
  ShimSpec::Gpus gpus;
  for (const int minor : minors) gpus.add_minors(minor);
  for (const int capability : capabilities) gpus.add_capabilities(capability);
  return gpus;
}

std::vector<std::string> Names(const std::vector<GpuFile>& files) {
  std::vector<std::string> names;
  for (const GpuFile& file : files) {
    names.push_back(absl::StrCat(file.path, " ", file.major, ":", file.minor));
  }
  return names;
}

struct stat Node(mode_t mode, unsigned int major, unsigned int minor) {
  struct stat found = {};
  found.st_mode = mode;
  found.st_rdev = makedev(major, minor);
  return found;
}

TEST(GpuFilesTest, AWholeGpuTakesItsOwnFileAndThoseOfTheDriver) {
  EXPECT_THAT(
      Names(GpuFilesOf(Gpus({3, 0}), kDevices).value()),
      ElementsAre("/dev/nvidiactl 195:255", "/dev/nvidia-uvm 510:0", "/dev/nvidia-uvm-tools 510:1",
                  "/dev/nvidia3 195:3", "/dev/nvidia0 195:0"));
}

TEST(GpuFilesTest, AMigInstanceTakesItsCapabilitiesToo) {
  EXPECT_THAT(
      Names(GpuFilesOf(Gpus({1}, {30, 31}), kDevices).value()),
      ElementsAre("/dev/nvidiactl 195:255", "/dev/nvidia-uvm 510:0", "/dev/nvidia-uvm-tools 510:1",
                  "/dev/nvidia1 195:1", "/dev/nvidia-caps/nvidia-cap30 235:30",
                  "/dev/nvidia-caps/nvidia-cap31 235:31"));
}

TEST(GpuFilesTest, WithoutAGpuThereIsNone) {
  EXPECT_TRUE(GpuFilesOf(Gpus({}), "").value().empty());
}

TEST(GpuFilesTest, FormerDriversHaveOneNameForBoth) {
  const std::string former = "Character devices:\n195 nvidia-frontend\n511 nvidia-uvm\n";
  EXPECT_THAT(Names(GpuFilesOf(Gpus({0}), former).value()),
              ElementsAre("/dev/nvidiactl 195:255", "/dev/nvidia-uvm 511:0",
                          "/dev/nvidia-uvm-tools 511:1", "/dev/nvidia0 195:0"));
}

TEST(GpuFilesTest, NumbersThatNoGpuHasAreRefused) {
  EXPECT_FALSE(GpuFilesOf(Gpus({-1}), kDevices).ok());
  EXPECT_FALSE(GpuFilesOf(Gpus({254}), kDevices).ok()) << "modeset";
  EXPECT_FALSE(GpuFilesOf(Gpus({255}), kDevices).ok()) << "control, for more than it is given";
  EXPECT_FALSE(GpuFilesOf(Gpus({0}, {-1}), kDevices).ok());
}

TEST(GpuFilesTest, WhatIsNotLoadedIsNamedWithTheRemedy) {
  const std::string without = absl::StrReplaceAll(kDevices, {{"510 nvidia-uvm\n", ""}});
  const absl::Status missing = GpuFilesOf(Gpus({0}), without).status();
  EXPECT_THAT(missing.message(), HasSubstr("nvidia-uvm"));
  EXPECT_THAT(missing.message(), HasSubstr("nvidia-modprobe -u -c=0"));
  EXPECT_THAT(GpuFilesOf(Gpus({0}), "").status().message(), HasSubstr("files of nvidia;"));
  EXPECT_THAT(GpuFileIsMissing("/dev/nvidia-uvm").message(),
              testing::AllOf(HasSubstr("/dev/nvidia-uvm is not there"),
                             HasSubstr("nvidia-modprobe -u -c=0")));
}

TEST(GpuFilesTest, OnlyTheVeryDeviceIsTaken) {
  const GpuFile file{"/dev/nvidia0", 195, 0};
  EXPECT_TRUE(CheckGpuFile(file, Node(S_IFCHR | 0666, 195, 0), 1234).ok());
  // Another GPU under this one's name, another driver, a disk, a plain file.
  for (const struct stat& other : {Node(S_IFCHR | 0666, 195, 1), Node(S_IFCHR | 0666, 1, 0),
                                   Node(S_IFBLK | 0666, 195, 0), Node(S_IFREG | 0666, 195, 0)}) {
    EXPECT_THAT(CheckGpuFile(file, other, 1234).message(),
                HasSubstr("/dev/nvidia0 is not the character device 195:0"));
  }
}

TEST(GpuFilesTest, AFileThatTheJobMayNotOpenIsToldWithItsMode) {
  const GpuFile file{"/dev/nvidia0", 195, 0};
  const absl::Status shut = CheckGpuFile(file, Node(S_IFCHR | 0660, 195, 0), 1234);
  EXPECT_THAT(shut.message(),
              HasSubstr("the mode 0660 of /dev/nvidia0 shuts out the Job's uid 1234"));
  EXPECT_FALSE(CheckGpuFile(file, Node(S_IFCHR | 0664, 195, 0), 1234).ok())
      << "to write takes more";
  EXPECT_TRUE(CheckGpuFile(file, Node(S_IFCHR | 0600, 195, 0), 0).ok());
  struct stat own = Node(S_IFCHR | 0600, 195, 0);
  own.st_uid = 1234;
  EXPECT_TRUE(CheckGpuFile(file, own, 1234).ok());
  const GpuFile capability{"/dev/nvidia-caps/nvidia-cap3", 235, 3, false, true};
  EXPECT_TRUE(CheckGpuFile(capability, Node(S_IFCHR | 0444, 235, 3), 1234).ok());
  EXPECT_FALSE(CheckGpuFile(capability, Node(S_IFCHR | 0400, 235, 3), 1234).ok());
}

}  // namespace
}  // namespace capstan::node_agent
