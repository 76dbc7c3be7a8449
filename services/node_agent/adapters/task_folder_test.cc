#include "services/node_agent/adapters/task_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::node_agent {
namespace {

using capstan::type::v1::TaskKey;

TaskKey Key(const std::string& job, int64_t generation, const std::string& group, int index) {
  TaskKey key;
  key.set_job_uid(job);
  key.set_generation(generation);
  key.set_group(group);
  key.set_index(index);
  return key;
}

std::string MakeFolder() {
  std::string pattern = absl::StrCat(getenv("TEST_TMPDIR"), "/folderXXXXXX");
  return mkdtemp(pattern.data());
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

TEST(TaskLeafTest, IsReadBackAsItWasWritten) {
  const TaskKey key = Key("0b5a7f2e-1", 12, "param-servers", 3);
  const absl::StatusOr<std::string> leaf = TaskLeaf(key);
  ASSERT_TRUE(leaf.ok());
  EXPECT_EQ(*leaf, "0b5a7f2e-1.12.param-servers-3");
  const absl::optional<TaskKey> again = ParseTaskLeaf(*leaf);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->SerializeAsString(), key.SerializeAsString());
}

TEST(TaskLeafTest, RefusesWhatWouldLeadElsewhere) {
  for (const TaskKey& key : {Key("..", 1, "g", 0), Key("a/b", 1, "g", 0), Key("", 1, "g", 0),
                             Key("a", 1, "../x", 0), Key("a", 1, "", 0), Key("a", -1, "g", 0),
                             Key("a", 1, "g", -1), Key("a", 1, "g.h", 0), Key("-a", 1, "g", 0)}) {
    EXPECT_EQ(status::Reason(TaskLeaf(key).status()), "INVALID_TASK_KEY") << key.DebugString();
  }
  for (const char* leaf :
       {"", "a", "a.1", "a.1.g", "a.x.g-1", "a.1.g-01", "a.1.g-1.b", "lost+found"}) {
    EXPECT_FALSE(ParseTaskLeaf(leaf).has_value()) << leaf;
  }
}

TEST(TaskFolderTest, IsMadeListedAndRemoved) {
  const std::string tasks = absl::StrCat(MakeFolder(), "/tasks");
  const std::string trash = absl::StrCat(MakeFolder(), "/trash");
  EXPECT_TRUE(ListTaskFolders(tasks).empty());
  for (const int index : {1, 0}) {
    ASSERT_TRUE(MakeTaskFolder(tasks, Key("job", 1, "g", index), 0).ok());
    ASSERT_TRUE(MakeTaskFolder(tasks, Key("job", 1, "g", index), 0).ok()) << "idempotent";
  }
  ASSERT_EQ(ListTaskFolders(tasks).size(), 2u);
  EXPECT_EQ(ListTaskFolders(tasks)[0].index(), 0);
  EXPECT_TRUE(MoveToTrash(tasks, trash, Key("job", 1, "g", 0)).ok());
  EXPECT_EQ(ListTaskFolders(tasks).size(), 1u);
  EXPECT_TRUE(MoveToTrash(tasks, trash, Key("job", 1, "g", 0)).ok()) << "absent is removed";
  EXPECT_TRUE(MoveToTrash(tasks, trash, Key("job", 1, "g", 1)).ok());
  EXPECT_FALSE(Exists(absl::StrCat(tasks, "/job"))) << "the last Task takes the Job's folder along";
  EXPECT_TRUE(EmptyTrash(trash).ok());
  EXPECT_FALSE(Exists(absl::StrCat(trash, "/0")));
}

TEST(TaskFolderTest, TrashIsEmptiedWhateverATaskHasMadeOfIt) {
  const std::string root = MakeFolder();
  const std::string tasks = absl::StrCat(root, "/tasks");
  const std::string trash = absl::StrCat(root, "/trash");
  const TaskKey key = Key("job", 1, "g", 0);
  ASSERT_TRUE(MakeTaskFolder(tasks, key, 0).ok());
  const std::string kept = absl::StrCat(root, "/kept");
  ASSERT_EQ(mkdir(kept.c_str(), 0700), 0);
  ASSERT_EQ(close(creat(absl::StrCat(kept, "/file").c_str(), 0600)), 0);
  const std::string output = absl::StrCat(TaskFolder(tasks, key), "/output");
  ASSERT_EQ(symlink(kept.c_str(), absl::StrCat(output, "/link").c_str()), 0);
  ASSERT_EQ(close(creat(absl::StrCat(output, "/file").c_str(), 0000)), 0);
  ASSERT_EQ(mkdir(absl::StrCat(output, "/shut").c_str(), 0700), 0);
  ASSERT_EQ(close(creat(absl::StrCat(output, "/shut/file").c_str(), 0600)), 0);
  ASSERT_EQ(chmod(absl::StrCat(output, "/shut").c_str(), 0000), 0);
  // Deeper than any path may be long, and than there are descriptors.
  int fd = open(output.c_str(), O_RDONLY | O_DIRECTORY);
  for (int depth = 0; depth < 3000; ++depth) {
    ASSERT_EQ(mkdirat(fd, "d", 0700), 0);
    const int next = openat(fd, "d", O_RDONLY | O_DIRECTORY);
    close(fd);
    fd = next;
  }
  close(fd);
  ASSERT_TRUE(MoveToTrash(tasks, trash, key).ok());
  const absl::Status emptied = EmptyTrash(trash);
  EXPECT_TRUE(emptied.ok()) << emptied;
  EXPECT_EQ(rmdir(trash.c_str()), 0) << "nothing is left in it";
  EXPECT_TRUE(Exists(absl::StrCat(kept, "/file"))) << "links are not followed";
}

}  // namespace
}  // namespace capstan::node_agent
