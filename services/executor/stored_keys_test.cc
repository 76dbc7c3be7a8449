#include "libs/store/testing/stored_keys.h"

#include "gtest/gtest.h"
#include "libs/golden/golden.h"
#include "libs/session/task_id.h"
#include "services/executor/core/keys.h"
#include "services/executor/stored_records.h"

namespace capstan::executor {
namespace {

TEST(StoredKeysTest, AreWhereReleasedVersionsHaveThem) {
  const session::TaskId task{.job_uid = "0193d5a0-7e21-7abc-8def-0123456789ab",
                             .generation = 12,
                             .group = "w",
                             .index = 3};
  store::ExpectStoredKeys(
      golden::Format("services/executor", "keys", "txt"), StoredRecords(),
      {kSelfKey, DesiredKey(task), ObservedKey(task), NodeKey("n1"), UidKey(task.job_uid)});
  EXPECT_EQ(*session::TaskId::FromPath(
                "0193d5a0-7e21-7abc-8def-0123456789ab/00000000000000000012/w/0000000003"),
            task)
      << golden::kMustRead;
}

}  // namespace
}  // namespace capstan::executor
