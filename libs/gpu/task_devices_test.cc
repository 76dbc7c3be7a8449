#include "libs/gpu/task_devices.h"

#include <cstddef>
#include <map>
#include <vector>

#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/gpu/device_reader.h"

namespace capstan::gpu {
namespace {

using Found = std::map<size_t, std::vector<TaskDevice>>;

// Pids 10 to 19 are of Task 1, 20 to 29 of Task 2, others no Task's.
Found Of(const std::vector<DeviceUse>& devices, int* asked = nullptr) {
  return DevicesOfTasks(devices, [&](pid_t pid) -> absl::optional<size_t> {
    if (asked != nullptr) ++*asked;
    if (pid < 10 || pid >= 30) return absl::nullopt;
    return static_cast<size_t>(pid / 10);
  });
}

TEST(TaskDevicesTest, ADeviceIsOfWhoseProcessesAreOnIt) {
  EXPECT_EQ(Of({{"a", 50.0, {{10, 100}, {11, 20}}}, {"b", 7.0, {{20, 5}}}, {"c", 1.0, {}}}),
            (Found{{1, {{"a", 50.0, 120}}}, {2, {{"b", 7.0, 5}}}}));
}

TEST(TaskDevicesTest, SharedDevicesCountForEachWithItsOwnMemory) {
  EXPECT_EQ(Of({{"a", 50.0, {{10, 100}, {20, 7}, {11, 1}}}, {"b", 3.0, {{10, 2}}}}),
            (Found{{1, {{"a", 50.0, 101}, {"b", 3.0, 2}}}, {2, {{"a", 50.0, 7}}}}));
}

TEST(TaskDevicesTest, StrangersAreNobodys) {
  EXPECT_EQ(Of({{"a", 50.0, {{1, 100}, {4711, 7}}}}), Found());
}

TEST(TaskDevicesTest, WhatIsNotKnownIsNotCountedAsNothing) {
  EXPECT_EQ(Of({{"a", absl::nullopt, {{10, absl::nullopt}, {11, 20}}},
                {"b", 1.0, {{10, 20}, {11, absl::nullopt}}}}),
            (Found{{1, {{"a", absl::nullopt, absl::nullopt}, {"b", 1.0, absl::nullopt}}}}));
}

TEST(TaskDevicesTest, EachProcessIsLookedUpOnce) {
  int asked = 0;
  Of({{"a", 1.0, {{10, 1}, {99, 1}}}, {"b", 1.0, {{10, 1}, {99, 1}}}}, &asked);
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace capstan::gpu
