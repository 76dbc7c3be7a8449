#include "libs/cgroup/cgroup.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::cgroup {
namespace {

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(getenv("TEST_TMPDIR"), "/", name);
  std::ofstream(path) << text;
  return path;
}

// A child that forks one of its own into a session of its own; both sleep until killed.
pid_t ForkPair(const Paths& paths) {
  int go[2];
  EXPECT_EQ(pipe(go), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    close(go[1]);
    char byte;
    if (read(go[0], &byte, 1) != 1) _exit(1);
    if (fork() == 0) setsid();
    while (true) pause();
  }
  close(go[0]);
  EXPECT_TRUE(Join(paths, pid).ok());
  EXPECT_EQ(write(go[1], "g", 1), 1);
  close(go[1]);
  return pid;
}

// Files as the kernel shows them where processes of another pid namespace are in the group: their
// number is 0, by which kill() means the caller's own process group.
TEST(CgroupTest, KillsNobodyElseForAProcessThatCannotBeSeen) {
  const std::string folder = absl::StrCat(getenv("TEST_TMPDIR"), "/unseen");
  ASSERT_EQ(mkdir(folder.c_str(), 0755), 0);
  WriteFile("unseen/cgroup.procs", "0\n");
  WriteFile("unseen/freezer.state", "FROZEN\n");
  Paths paths;
  paths.v1_freezer = folder;
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    _exit(Kill(paths).ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "killed itself";
  // It is there all the same.
  EXPECT_FALSE(IsEmpty(paths));
}

// Real groups of this machine; the target is tagged `root` and fails for others rather than pass
// unseen.
class RealCgroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    name_ = absl::StrCat("capstan-cgroup-test-", getpid());
  }
  void TearDown() override {
    if (name_.empty()) return;
    absl::StatusOr<Tree> tree = Tree::Open(name_);
    if (!tree.ok()) return;
    for (const std::string& leaf : tree->List()) {
      const Paths paths = tree->Find(leaf);
      while (!IsEmpty(paths)) EXPECT_TRUE(Kill(paths).ok());
      EXPECT_TRUE(tree->Remove(leaf).ok());
    }
    EXPECT_TRUE(tree->RemoveTree().ok());
  }
  void ExpectKillEndsEverything(const Tree& tree, const Paths& paths);

  std::string name_;
};

void RealCgroupTest::ExpectKillEndsEverything(const Tree& tree, const Paths& paths) {
  EXPECT_TRUE(IsEmpty(paths));
  const pid_t child = ForkPair(paths);
  EXPECT_FALSE(IsEmpty(paths));
  EXPECT_EQ(status::Reason(tree.Remove("leaf")), "CGROUP_NOT_EMPTY");
  while (!IsEmpty(paths)) ASSERT_TRUE(Kill(paths).ok());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_TRUE(tree.Remove("leaf").ok());
  EXPECT_TRUE(tree.Remove("leaf").ok()) << "removing twice is removing once";
  EXPECT_TRUE(Kill(paths).ok()) << "a group that is gone holds nothing";
  EXPECT_TRUE(IsEmpty(paths));
}

TEST_F(RealCgroupTest, KillEndsEveryProcessAlsoThoseInSessionsOfTheirOwn) {
  absl::StatusOr<Tree> tree = Tree::Open(name_);
  ASSERT_TRUE(tree.ok()) << tree.status();
  ASSERT_TRUE(tree->fences());
  const absl::StatusOr<Paths> paths = tree->Make("leaf", Limits{250, 64 << 20});
  ASSERT_TRUE(paths.ok()) << paths.status();
  EXPECT_EQ(tree->List(), std::vector<std::string>{"leaf"});
  ExpectKillEndsEverything(*tree, *paths);
}

TEST_F(RealCgroupTest, FreezerEndsEverythingWhereThereIsNoV2) {
  std::ifstream in("/proc/self/mountinfo");
  std::string text, line;
  while (std::getline(in, line)) {
    if (line.find("- cgroup2 ") == std::string::npos) text += line + "\n";
  }
  if (text.find("freezer") == std::string::npos) GTEST_SKIP() << "no v1 freezer on this machine";
  absl::StatusOr<Tree> tree = Tree::Open(name_, WriteFile("mountinfo", text));
  ASSERT_TRUE(tree.ok()) << tree.status();
  ASSERT_TRUE(tree->fences());
  const absl::StatusOr<Paths> paths = tree->Make("leaf", Limits{});
  ASSERT_TRUE(paths.ok()) << paths.status();
  EXPECT_TRUE(paths->v2.empty());
  EXPECT_FALSE(paths->v1_freezer.empty());
  ExpectKillEndsEverything(*tree, *paths);
  // What TearDown opens does not have the freezer.
  EXPECT_TRUE(tree->RemoveTree().ok());
}

TEST_F(RealCgroupTest, PopulatedEventComesWhenTheLastProcessEnds) {
  absl::StatusOr<Tree> tree = Tree::Open(name_);
  ASSERT_TRUE(tree.ok()) << tree.status();
  const absl::StatusOr<Paths> paths = tree->Make("leaf", Limits{});
  ASSERT_TRUE(paths.ok()) << paths.status();
  const pid_t child = ForkPair(*paths);
  UniqueFd events = OpenPopulatedEvents(*paths);
  if (!events.valid()) GTEST_SKIP() << "no cgroup v2 on this machine";
  ASSERT_FALSE(IsEmpty(*paths));
  ASSERT_TRUE(Kill(*paths).ok());
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  while (!IsEmpty(*paths)) {
    pollfd poll_fd{events.get(), POLLPRI, 0};
    ASSERT_EQ(poll(&poll_fd, 1, 10000), 1);
  }
}

TEST_F(RealCgroupTest, MemoryLimitIsHardAndItsKillsAreCounted) {
  absl::StatusOr<Tree> tree = Tree::Open(name_);
  ASSERT_TRUE(tree.ok()) << tree.status();
  if (!tree->limits()) GTEST_SKIP() << "no controllers on this machine";
  const absl::StatusOr<Paths> paths = tree->Make("leaf", Limits{100, 32 << 20});
  ASSERT_TRUE(paths.ok()) << paths.status();
  EXPECT_EQ(OutOfMemoryKills(*paths), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    if (!Join(*paths, getpid()).ok()) _exit(1);
    constexpr size_t kSize = 256 << 20;
    volatile char* block = static_cast<char*>(malloc(kSize));
    for (size_t i = 0; i < kSize; i += 4096) block[i] = 1;
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  EXPECT_GE(OutOfMemoryKills(*paths), 1);
}

TEST_F(RealCgroupTest, LimitsMayBeSetAgainUpAndDown) {
  absl::StatusOr<Tree> tree = Tree::Open(name_);
  ASSERT_TRUE(tree.ok()) << tree.status();
  for (const int64_t bytes : {64 << 20, 128 << 20, 32 << 20}) {
    const absl::StatusOr<Paths> paths = tree->Make("leaf", Limits{bytes >> 10, bytes});
    EXPECT_TRUE(paths.ok()) << paths.status();
  }
}

TEST_F(RealCgroupTest, WithoutHierarchiesThereIsNothingAndThatIsSaid) {
  absl::StatusOr<Tree> tree =
      Tree::Open(name_, WriteFile("none", "22 1 0:1 / / rw - ext4 /dev/root rw\n"));
  ASSERT_TRUE(tree.ok()) << tree.status();
  EXPECT_FALSE(tree->fences());
  EXPECT_FALSE(tree->limits());
  const absl::StatusOr<Paths> paths = tree->Make("leaf", Limits{100, 1 << 20});
  ASSERT_TRUE(paths.ok()) << paths.status();
  EXPECT_FALSE(paths->fences());
  EXPECT_TRUE(IsEmpty(*paths));
}

}  // namespace
}  // namespace capstan::cgroup
