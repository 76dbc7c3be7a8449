#include "tools/capstan/dev/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace capstan::dev {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);

std::string ReadFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return ReadAll(fd.get(), 1 << 16, path).value_or("");
}

SpawnOptions Shell(const std::string& script, const std::string& output) {
  SpawnOptions options;
  options.argv = {"/bin/sh", "-c", script};
  options.environment = {"PATH=/bin:/usr/bin", "GREETING=hello"};
  options.output_file = absl::StrCat(::testing::TempDir(), "/", output);
  return options;
}

int WaitStatusOf(Child& child) {
  pollfd waiting = {.fd = child.pidfd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))), 1);
  return child.TryReap().value_or(-1);
}

TEST(ProcessTest, AChildGetsItsEnvironmentAndDescriptorsAndNothingElse) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(write(ends[1], "secret\n", 7), 7);
  close(ends[1]);
  // Not marked close-on-exec: it must not reach the child all the same.
  const int stray = open("/dev/null", O_RDONLY);
  SpawnOptions options =
      Shell("read -r s <&3; echo $GREETING $s; echo err >&2; ls /proc/self/fd", "a");
  options.descriptors = {{ends[0], 3}};
  auto child = Child::Spawn(options);
  close(ends[0]);
  close(stray);
  ASSERT_TRUE(child.ok()) << child.status();
  const int wait_status = WaitStatusOf(*child);
  EXPECT_EQ(DescribeWaitStatus(wait_status), "exit code 0");
  // ls itself opens the folder, as 4.
  EXPECT_EQ(ReadFile(options.output_file), "hello secret\nerr\n0\n1\n2\n3\n4\n");
}

TEST(ProcessTest, AProgramThatIsNotThereIsAnError) {
  SpawnOptions options = Shell("", "b");
  options.argv = {"/nonexistent/program"};
  EXPECT_EQ(Child::Spawn(options).status().code(), absl::StatusCode::kNotFound);
}

TEST(ProcessTest, SignalsReachExactlyTheProcess) {
  auto child = Child::Spawn(Shell("exec sleep 1000", "c"));
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_TRUE(IsAlive(child->id()));
  // The same pid with another start is another process.
  SignalProcess({child->id().pid, child->id().start_ticks + 1}, SIGKILL);
  EXPECT_FALSE(WaitForEnd(child->id(), absl::Milliseconds(1)));
  SignalProcess(child->id(), SIGTERM);
  EXPECT_TRUE(WaitForEnd(child->id(), kPatience));
  EXPECT_EQ(DescribeWaitStatus(WaitStatusOf(*child)), "signal 15 (Terminated)");
  EXPECT_FALSE(IsAlive(child->id()));
}

TEST(ProcessTest, AChildIsInASessionOfItsOwn) {
  auto child = Child::Spawn(Shell("exec sleep 1000", "d"));
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(getsid(child->id().pid), child->id().pid);
  SignalProcess(child->id(), SIGKILL);
  WaitStatusOf(*child);
}

TEST(ProcessTest, PidFilesNameLivingProcessesOnly) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/x.pid");
  EXPECT_FALSE(ReadPidFile(path).has_value());
  const auto own = FindProcess(getpid());
  ASSERT_TRUE(own.has_value());
  ASSERT_TRUE(WritePidFile(path, *own).ok());
  EXPECT_EQ(ReadPidFile(path)->pid, getpid());
  ASSERT_TRUE(WritePidFile(path, {getpid(), own->start_ticks + 1}).ok());
  EXPECT_FALSE(ReadPidFile(path).has_value());
}

}  // namespace
}  // namespace capstan::dev
