#include "services/node_agent/task_device_look.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "libs/gpu/fake_device_reader.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimSpec;

session::TaskId Id(int32_t index) {
  session::TaskId id;
  id.job_uid = "3f1c0000-0000-4000-8000-000000000001";
  id.generation = 1;
  id.group = "w";
  id.index = index;
  return id;
}

class TaskDeviceLookTest : public ::testing::Test {
 protected:
  // A group's folder as cgroupfs shows it.
  ShimSpec::Cgroup Group(const std::string& name, const std::string& processes) const {
    const std::string folder = std::string(std::getenv("TEST_TMPDIR")) + "/" + name;
    std::filesystem::create_directories(folder);
    std::ofstream file(folder + "/cgroup.procs");
    file << processes;
    ShimSpec::Cgroup group;
    group.set_v2(folder);
    return group;
  }
};

TEST_F(TaskDeviceLookTest, ADeviceIsOfTheTaskWhoseProcessIsOnIt) {
  int opened = 0;
  const auto look =
      MakeTaskDeviceLook([&opened]() -> absl::StatusOr<std::unique_ptr<gpu::DeviceReader>> {
        ++opened;
        auto reader = std::make_unique<gpu::FakeDeviceReader>();
        reader->devices = {{"GPU-a", 90.0, {{11, 100}, {12, 20}}}, {"GPU-b", 5.0, {{99, 7}}}};
        return reader;
      });
  const UsageSampler::Groups groups = {{Id(0), Group("a", "10\n11\n12\n")},
                                       {Id(1), Group("b", "20\n")}};
  const UsageSampler::Devices found = look(groups);
  ASSERT_EQ(found.size(), 1u);
  ASSERT_EQ(found.at(Id(0)).size(), 1u);
  EXPECT_EQ(found.at(Id(0))[0].uuid, "GPU-a");
  EXPECT_EQ(found.at(Id(0))[0].memory_bytes, 120);
  look(groups);
  EXPECT_EQ(opened, 1);
}

TEST_F(TaskDeviceLookTest, AMachineWithoutDevicesIsAskedOnce) {
  int opened = 0;
  const auto look =
      MakeTaskDeviceLook([&opened]() -> absl::StatusOr<std::unique_ptr<gpu::DeviceReader>> {
        ++opened;
        return absl::NotFoundError("no driver");
      });
  EXPECT_TRUE(look({{Id(0), Group("c", "1\n")}}).empty());
  EXPECT_TRUE(look({}).empty());
  EXPECT_EQ(opened, 1);
}

}  // namespace
}  // namespace capstan::node_agent
