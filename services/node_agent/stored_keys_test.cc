#include "libs/store/testing/stored_keys.h"

#include "gtest/gtest.h"
#include "libs/golden/golden.h"
#include "libs/session/task_id.h"
#include "services/node_agent/core/keys.h"
#include "services/node_agent/stored_records.h"

namespace capstan::node_agent {
namespace {

TEST(StoredKeysTest, AreWhereReleasedVersionsHaveThem) {
  const session::TaskId task{.job_uid = "0193d5a0-7e21-7abc-8def-0123456789ab",
                             .generation = 12,
                             .group = "w",
                             .index = 3};
  store::ExpectStoredKeys(
      golden::Format("services/node_agent", "keys", "txt"), StoredRecords(),
      {kSelfKey, kConfirmedKey, OrderKey(task), TaskKeyOf(task), CursorKey(task)});
}

}  // namespace
}  // namespace capstan::node_agent
