#include "libs/store/testing/stored_keys.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/golden/golden.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/stored_records.h"

namespace capstan::scheduler {
namespace {

constexpr char kUid[] = "0193d5a0-7e21-7abc-8def-0123456789ab";

TEST(StoredKeysTest, AreWhereReleasedVersionsHaveThem) {
  store::ExpectStoredKeys(
      golden::Format("services/scheduler", "keys", "txt"), StoredRecords(),
      {JobSpecKey(kUid), JobStateKey(kUid), GangHeadKey(kUid), PlacementKey(kUid, 12, 3),
       TaskKeyOf(kUid, 12, 3), NodeKey("local", "n1"), ClusterKey("local"), QueueKey("default"),
       QueueUsageKey("default"), CapacityOrderKey("o1"), MaintenanceWindowKey("local", "w1"),
       RequestKey("jobs", "p", "r1"), RequestKey("queues", "-", "r1"), PinReleaseKey(kUid, 12)});
}

TEST(StoredKeysTest, PartsAreReadAsTheyWereWritten) {
  EXPECT_EQ(KeyParts("/capstan/scheduler/v1/tasks/uid/000000000012/000003"),
            (std::vector<std::string>{"tasks", "uid", "000000000012", "000003"}));
  EXPECT_EQ(ParseKeyNumber("000000000012"), 12);
}

}  // namespace
}  // namespace capstan::scheduler
