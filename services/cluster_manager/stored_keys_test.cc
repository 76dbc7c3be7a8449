#include "libs/store/testing/stored_keys.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/golden/golden.h"
#include "services/cluster_manager/core/health_core.h"
#include "services/cluster_manager/stored_records.h"

namespace capstan::cluster_manager {
namespace {

TEST(StoredKeysTest, AreWhereReleasedVersionsHaveThem) {
  store::ExpectStoredKeys(golden::Format("services/cluster_manager", "keys", "txt"),
                          StoredRecords(),
                          {ClusterKey("clusters/local"), VerdictKey("clusters/local/nodes/n1"),
                           // Those of libs/store/shards.h, which are leased.
                           absl::StrCat(kKeyPrefix, "shards/shard/0")});
  EXPECT_EQ(ClusterOfKey("/capstan/cluster_manager/v1/verdict/clusters/local/nodes/n1"),
            "clusters/local")
      << golden::kMustRead;
}

}  // namespace
}  // namespace capstan::cluster_manager
