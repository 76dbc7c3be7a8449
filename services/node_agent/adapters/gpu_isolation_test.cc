// Which device files of GPUs an isolated Task can open. The machine needs no GPU: in a mount namespace
// of the test's own, /dev and /proc/devices are as if it had some, whose device files are the
// kernel's /dev/null and its like, so that it is seen which one was opened.
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/adapters/intrusion.h"
#include "services/node_agent/adapters/process_bench.h"
#include "services/node_agent/ports/task_runtime.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimSpec;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskKey;
using testing::ElementsAre;
using testing::HasSubstr;

// The kernel's memory devices stand in for the driver's: 1:3 is /dev/null, 1:5 /dev/zero, 1:7
// /dev/full.
constexpr unsigned int kMajor = 1;

bool MakeNode(const std::string& name, unsigned int minor, mode_t mode = 0666) {
  const std::string path = absl::StrCat("/dev/", name);
  return mknod(path.c_str(), S_IFCHR | mode, makedev(kMajor, minor)) == 0 &&
         chmod(path.c_str(), mode) == 0;
}

// True if the namespace could be made. Before any thread is, since each has its own.
bool EnterMachineWithGpus() {
  if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0) return false;
  const std::string scratch = absl::StrCat(getenv("TEST_TMPDIR"), "/dev");
  mkdir(scratch.c_str(), 0755);
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("dev", scratch.c_str(), "tmpfs", 0, "mode=0755") != 0) {
    return false;
  }
  for (const char* name : {"null", "zero", "full", "random", "urandom"}) {
    const std::string target = absl::StrCat(scratch, "/", name);
    std::ofstream(target).close();
    if (mount(absl::StrCat("/dev/", name).c_str(), target.c_str(), nullptr, MS_BIND, nullptr) !=
        0) {
      return false;
    }
  }
  if (mount(scratch.c_str(), "/dev", nullptr, MS_MOVE, nullptr) != 0) return false;
  const std::string devices = absl::StrCat(getenv("TEST_TMPDIR"), "/devices");
  std::ofstream(devices) << "Character devices:\n"
                         << kMajor << " nvidia\n"
                         << kMajor << " nvidiactl\n"
                         << kMajor << " nvidia-uvm\n"
                         << kMajor << " nvidia-caps\n";
  return mount(devices.c_str(), "/proc/devices", nullptr, MS_BIND, nullptr) == 0;
}

class GpuIsolationTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { is_machine_ = EnterMachineWithGpus(); }

  void SetUp() override {
    if (!is_machine_) GTEST_SKIP() << "needs root, and a mount namespace";
    if (!MakeNode("nvidiactl", 255)) GTEST_SKIP() << "needs the right to make device files";
    mkdir("/dev/nvidia-caps", 0755);
    ASSERT_TRUE(MakeNode("nvidia-uvm", 0) && MakeNode("nvidia-uvm-tools", 1) &&
                MakeNode("nvidia3", 3) && MakeNode("nvidia5", 5) && MakeNode("nvidia7", 7) &&
                MakeNode("nvidia-caps/nvidia-cap8", 8, 0444) &&
                MakeNode("nvidia-caps/nvidia-cap9", 9, 0444));
    bench_ = ProcessBench::Make();
    ASSERT_NE(bench_, nullptr);
    chmod(bench_->data_folder().c_str(), 0711);
  }
  void TearDown() override {
    if (bench_ == nullptr) return;
    bool removed = false;
    bench_->strand().Post([&] {
      bench_->runtime().Kill(key_, [&](absl::Status) {
        bench_->runtime().Remove(key_, [&](absl::Status) { removed = true; });
      });
    });
    EXPECT_TRUE(bench_->RunUntil([&] { return removed; }));
    bench_.reset();
    for (const char* name : {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia3", "nvidia5",
                             "nvidia7", "nvidia-caps/nvidia-cap8", "nvidia-caps/nvidia-cap9"}) {
      unlink(absl::StrCat("/dev/", name).c_str());
    }
  }

  // Runs a Task with these GPUs to its end.
  TaskEnd Run(const std::vector<int>& minors, const std::vector<int>& capabilities,
              const std::string& script) {
    key_.set_job_uid("0b5a7f2e-0000-4000-8000-000000000001");
    key_.set_generation(1);
    key_.set_group("workers");
    ShimSpec spec;
    *spec.mutable_key() = key_;
    spec.set_deadline_boottime_ns(
        (bench_->strand().clock().Read().boot + absl::Minutes(5)).ToNanoseconds());
    spec.set_log_limit_bytes(1 << 20);
    bench_->Script(script, &spec);
    for (const int minor : minors) spec.mutable_gpus()->add_minors(minor);
    for (const int capability : capabilities) spec.mutable_gpus()->add_capabilities(capability);
    const absl::Status started = bench_->Start(spec);
    EXPECT_TRUE(started.ok()) << started;
    EXPECT_TRUE(bench_->RunUntil([&] { return bench_->Status(key_).has_end(); }));
    return bench_->Status(key_).end();
  }
  std::vector<std::string> Lines() { return LogLines(bench_->Folder(key_)); }

  static bool is_machine_;
  std::unique_ptr<ProcessBench> bench_;
  TaskKey key_;
};

bool GpuIsolationTest::is_machine_ = false;

constexpr char kList[] = "cd /dev; ls -d nvidia* nvidia-caps/* 2>/dev/null";

TEST_F(GpuIsolationTest, ATaskWithoutGpusSeesNone) {
  EXPECT_EQ(Run({}, {}, absl::StrCat(kList, "; echo end")).cause(), TaskEnd::CAUSE_EXITED);
  EXPECT_THAT(Lines(), ElementsAre("end"));
}

TEST_F(GpuIsolationTest, ATaskHasItsOwnGpuAndNoOther) {
  const TaskEnd end = Run({5}, {},
                          absl::StrCat(kList,
                                       "; head -c 2 /dev/nvidia5 | od -An -tx1; "
                                       "for f in /dev/nvidia3 /dev/nvidia7; do "
                                       "if head -c 1 $f >/dev/null 2>&1; then echo $f open; "
                                       "else echo $f shut; fi; done"));
  EXPECT_EQ(end.cause(), TaskEnd::CAUSE_EXITED) << end.message();
  EXPECT_THAT(Lines(), ElementsAre("nvidia-uvm", "nvidia-uvm-tools", "nvidia5", "nvidiactl",
                                   " 00 00", "/dev/nvidia3 shut", "/dev/nvidia7 shut"));
}

TEST_F(GpuIsolationTest, AMigInstanceComesWithItsCapabilities) {
  EXPECT_EQ(Run({3}, {8, 9}, kList).cause(), TaskEnd::CAUSE_EXITED);
  EXPECT_THAT(Lines(),
              ElementsAre("nvidia-caps", "nvidia-caps/nvidia-cap8", "nvidia-caps/nvidia-cap9",
                          "nvidia-uvm", "nvidia-uvm-tools", "nvidia3", "nvidiactl"));
}

// Each way to another GPU's file but the agent's own.
TEST_F(GpuIsolationTest, AFileThatIsNotThereCantBeMade) {
  const TaskEnd end =
      Run({5}, {},
          "grep -E '^Cap(Eff|Bnd)' /proc/self/status | tr -d '\t'; "
          "mknod /tmp/nvidia3 c 1 3 2>/dev/null || echo no node; "
          "mknod /dev/nvidia3 c 1 3 2>/dev/null || echo no node in dev; "
          "unshare -Ur mknod /tmp/nvidia3 c 1 3 2>/dev/null || echo no node in a namespace; "
          "mv /dev/nvidia5 /dev/nvidia3 2>/dev/null || echo no move; "
          "chmod 666 /dev/nvidia5 2>/dev/null || echo no mode; "
          "grep -E ' /dev/nvidia5 ' /proc/self/mountinfo | cut -d' ' -f6 | "
          "grep -c 'nosuid.*noexec'");
  EXPECT_EQ(end.cause(), TaskEnd::CAUSE_EXITED) << end.message();
  EXPECT_THAT(Lines(),
              ElementsAre("CapEff:0000000000000000", "CapBnd:0000000000000000", "no node",
                          "no node in dev", "no node in a namespace", "no move", "no mode", "1"));
}

TEST_F(GpuIsolationTest, AMissingFileIsNamedWithTheRemedy) {
  unlink("/dev/nvidia-uvm");
  const TaskEnd end = Run({5}, {}, "echo ran");
  EXPECT_EQ(end.cause(), TaskEnd::CAUSE_EXEC_FAILED);
  EXPECT_THAT(end.message(), HasSubstr("/dev/nvidia-uvm is not there"));
  EXPECT_THAT(end.message(), HasSubstr("nvidia-modprobe -u -c=0"));
  EXPECT_THAT(Lines(), ElementsAre());
}

TEST_F(GpuIsolationTest, WhatProfilersUseMayBeMissing) {
  unlink("/dev/nvidia-uvm-tools");
  EXPECT_EQ(Run({5}, {}, kList).cause(), TaskEnd::CAUSE_EXITED);
  EXPECT_THAT(Lines(), ElementsAre("nvidia-uvm", "nvidia5", "nvidiactl"));
}

TEST_F(GpuIsolationTest, AnotherDeviceUnderTheNameIsNotTaken) {
  unlink("/dev/nvidia5");
  ASSERT_TRUE(MakeNode("nvidia5", 3));
  EXPECT_THAT(Run({5}, {}, "echo ran").message(),
              HasSubstr("/dev/nvidia5 is not the character device 1:5"));
  EXPECT_THAT(Lines(), ElementsAre());
}

TEST_F(GpuIsolationTest, ALinkIsNotFollowed) {
  unlink("/dev/nvidia5");
  ASSERT_EQ(symlink("/dev/zero", "/dev/nvidia5"), 0);
  EXPECT_EQ(Run({5}, {}, "echo ran").cause(), TaskEnd::CAUSE_EXEC_FAILED);
  EXPECT_THAT(Lines(), ElementsAre());
}

TEST_F(GpuIsolationTest, AFileThatIsShutToTheJobIsToldWithItsMode) {
  chmod("/dev/nvidia5", 0660);
  EXPECT_THAT(Run({5}, {}, "echo ran").message(), HasSubstr("the mode 0660 of /dev/nvidia5"));
}

TEST_F(GpuIsolationTest, TheDriversControlFileIsNoGpu) {
  EXPECT_EQ(Run({255}, {}, "echo ran").cause(), TaskEnd::CAUSE_EXEC_FAILED);
}

}  // namespace
}  // namespace capstan::node_agent
