#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/time/system_clock.h"
#include "services/node_agent/adapters/intrusion.h"
#include "services/node_agent/adapters/task_folder.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimSpec;
using capstan::type::v1::TaskEnd;

// The platform run by an ordinary user: the kernel's uid is the same for everything, and the
// namespaces alone keep Tasks from it and from each other.
class UserNamespaceTest : public ::testing::Test {
 protected:
  static constexpr uid_t kUser = 61500;

  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root, to be an ordinary user of its own";
    char pattern[] = "/var/lib/capstan-test-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    data_ = pattern;
    ASSERT_EQ(chmod(data_.c_str(), 0700), 0);
    ASSERT_EQ(chown(data_.c_str(), kUser, kUser), 0);
    // Bazel's folders are root's alone.
    shim_ = data_ + "/shim";
    std::ifstream in("services/node_agent/shim/shim", std::ios::binary);
    std::ofstream(shim_, std::ios::binary) << in.rdbuf();
    ASSERT_EQ(chmod(shim_.c_str(), 0755), 0);
  }
  void TearDown() override {
    if (data_.empty()) return;
    for (const pid_t shim : shims_) {
      kill(shim, SIGKILL);
      waitpid(shim, nullptr, 0);
    }
    EXPECT_TRUE(EmptyTrash(data_).ok());
    rmdir(data_.c_str());
  }

  template <typename Body>
  pid_t AsUser(Body body) {
    const pid_t pid = fork();
    if (pid == 0) {
      if (setgroups(0, nullptr) != 0 || setgid(kUser) != 0 || setuid(kUser) != 0) _exit(1);
      umask(077);
      body();
      _exit(0);
    }
    return pid;
  }

  // Starts the spec's Task as the user; returns its folder.
  std::string Start(const std::string& name, ShimSpec spec) {
    const std::string folder = absl::StrCat(data_, "/", name);
    spec.add_env("PATH=/usr/bin:/bin");
    spec.set_working_directory("/tmp");
    spec.set_namespaces(true);
    spec.set_user_namespace(true);
    spec.add_hidden_paths(data_);
    spec.set_deadline_boottime_ns((clock_.Read().boot + absl::Minutes(5)).ToNanoseconds());
    ShimSpec::Mount* mount = spec.add_mounts();
    mount->set_source(folder + "/output");
    mount->set_target("/capstan/output");
    shims_.push_back(AsUser([&] {
      for (const char* part : {"", "/output", "/socket"}) mkdir((folder + part).c_str(), 0700);
      std::ofstream(folder + "/spec.binpb", std::ios::binary) << spec.SerializeAsString();
      setsid();
      execl(shim_.c_str(), "shim", folder.c_str(), nullptr);
    }));
    return folder;
  }

  static bool Until(const std::function<bool()>& condition) {
    for (int i = 0; i < 6000; ++i) {
      if (condition()) return true;
      poll(nullptr, 0, 5);
    }
    return false;
  }

  SystemClock clock_;
  std::string data_;
  std::string shim_;
  std::vector<pid_t> shims_;
};

TEST_F(UserNamespaceTest, AnotherTaskIsRefusedEverythingForAnOrdinaryUserToo) {
  waitpid(AsUser([&] {
            std::ofstream(data_ + "/ca.key") << "PRIVATE";
            std::ofstream(data_ + "/scheduler.db") << "STORE";
          }),
          nullptr, 0);
  ShimSpec victim_spec;
  for (const char* word : {"/bin/sleep", "1000"}) victim_spec.add_argv(word);
  victim_spec.add_env("VICTIM_SECRET=1");
  const std::string victim = Start("victim", victim_spec);
  ASSERT_TRUE(Until([&] {
    const auto status = ReadShimStatus(victim);
    return status.has_value() && (status->task_pid() > 0 || status->has_end());
  }));
  const auto status = *ReadShimStatus(victim);
  ASSERT_FALSE(status.has_end()) << status.DebugString();
  pid_t program = 0;
  ASSERT_TRUE(Until([&] {
    std::ifstream(
        absl::StrCat("/proc/", status.task_pid(), "/task/", status.task_pid(), "/children")) >>
        program;
    return program > 0;
  }));
  const UniqueFd listener = ListenInTaskFolder(victim);

  ShimSpec spec;
  for (const char* word : {"/usr/bin/python3", "-c", kIntrusion}) spec.add_argv(word);
  spec.add_env(absl::StrCat("VICTIM_PID=", program));
  spec.add_env(absl::StrCat("SHIM_PID=", status.shim_pid()));
  spec.add_env(absl::StrCat("VICTIM_FOLDER=", victim));
  spec.add_env(absl::StrCat("DATA=", data_));
  const std::string intruder = Start("intruder", spec);
  ASSERT_TRUE(Until([&] {
    const auto now = ReadShimStatus(intruder);
    return now.has_value() && now->has_end();
  }));
  EXPECT_EQ(ReadShimStatus(intruder)->end().cause(), TaskEnd::CAUSE_EXITED)
      << ReadShimStatus(intruder)->DebugString();
  ExpectAllRefused(LogLines(intruder));
  EXPECT_EQ(kill(program, 0), 0) << "the other Task runs on";
  // Without a cgroup the PID namespace takes everything along.
  kill(static_cast<pid_t>(status.shim_pid()), SIGKILL);
  EXPECT_TRUE(Until([&] { return kill(program, 0) != 0; }));
}

}  // namespace
}  // namespace capstan::node_agent
