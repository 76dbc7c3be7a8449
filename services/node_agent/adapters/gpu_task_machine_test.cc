// Isolated Tasks on the GPUs of this very machine: run by hand, as root, where there are some; changes
// nothing on them. Python with PyTorch is used if the Task finds it: TEST_TASK_PATH is its PATH, and
// TEST_TASK_LIBRARIES its LD_LIBRARY_PATH.
#include <stdlib.h>
#include <sys/stat.h>

#include <cstdio>
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
#include "services/node_agent/adapters/nvml_gpu_devices.h"
#include "services/node_agent/adapters/process_bench.h"
#include "services/node_agent/core/gpu_book.h"
#include "services/node_agent/core/whole_gpu.h"
#include "services/node_agent/ports/gpu_devices.h"
#include "services/node_agent/ports/task_runtime.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimSpec;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskKey;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr char kLook[] =
    "echo files: $(cd /dev; ls -d nvidia* nvidia-caps/* 2>/dev/null); "
    "echo smi: $(nvidia-smi -L 2>&1 | wc -l) lines: $(nvidia-smi -L 2>&1 | head -1); "
    "exec python3 -c '"
    "import torch\n"
    "print(\"devices:\", torch.cuda.device_count(), \"available:\", torch.cuda.is_available())\n"
    "if torch.cuda.is_available():\n"
    "    a = torch.eye(2048, device=\"cuda\") * 3\n"
    "    b = (a @ a).sum().item()\n"
    "    print(\"product:\", b, \"on\", torch.cuda.get_device_name(0))\n"
    "    try:\n"
    "        torch.zeros(1, device=\"cuda:1\")\n"
    "        print(\"second: there\")\n"
    "    except Exception:\n"
    "        print(\"second: none\")\n"
    "' 2>&1";

class GpuTaskMachineTest : public testing::Test {
 protected:
  void SetUp() override {
    bench_ = ProcessBench::Make();
    if (bench_ == nullptr) GTEST_SKIP() << "needs root";
    chmod(bench_->data_folder().c_str(), 0711);
    const auto devices = MakeNvmlGpuDevices({}, &bench_->strand(), &bench_->strand());
    absl::StatusOr<std::vector<WholeGpu>> listed = absl::UnknownError("not answered");
    bool answered = false;
    devices->List([&](absl::StatusOr<std::vector<WholeGpu>> gpus) {
      listed = std::move(gpus);
      answered = true;
    });
    EXPECT_TRUE(bench_->RunUntil([&] { return answered; }));
    if (!listed.ok()) GTEST_SKIP() << listed.status();
    if (listed->empty()) GTEST_SKIP() << "no whole GPU here";
    gpus_ = *std::move(listed);
  }
  void TearDown() override {
    if (bench_ == nullptr) return;
    bool removed = key_.job_uid().empty();
    bench_->strand().Post([&] {
      if (removed) return;
      bench_->runtime().Kill(key_, [&](absl::Status) {
        bench_->runtime().Remove(key_, [&](absl::Status) { removed = true; });
      });
    });
    EXPECT_TRUE(bench_->RunUntil([&] { return removed; }));
    bench_.reset();
  }

  // Runs the look in an isolated Task; prints, and returns, what it has said.
  std::vector<std::string> Look(const std::vector<WholeGpu>& gpus) {
    key_.set_job_uid("0b5a7f2e-0000-4000-8000-000000000001");
    key_.set_generation(1);
    key_.set_group("workers");
    ShimSpec spec;
    *spec.mutable_key() = key_;
    spec.set_deadline_boottime_ns(
        (bench_->strand().clock().Read().boot + absl::Minutes(5)).ToNanoseconds());
    spec.set_log_limit_bytes(1 << 20);
    bench_->Script(kLook, &spec);
    spec.clear_env();
    const char* path = getenv("TEST_TASK_PATH");
    spec.add_env(absl::StrCat("PATH=", path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path));
    const char* libraries = getenv("TEST_TASK_LIBRARIES");
    if (libraries != nullptr) spec.add_env(absl::StrCat("LD_LIBRARY_PATH=", libraries));
    spec.add_env("HOME=/tmp");
    std::string visible;
    for (const WholeGpu& gpu : gpus) {
      absl::StrAppend(&visible, visible.empty() ? "" : ",", gpu.uuid);
      spec.mutable_gpus()->add_minors(gpu.minor.value());
    }
    spec.add_env(absl::StrCat("CUDA_VISIBLE_DEVICES=", visible));
    const absl::Status started = bench_->Start(spec);
    EXPECT_TRUE(started.ok()) << started;
    // Importing PyTorch takes its time.
    for (int i = 0; i < 3 && !bench_->Status(key_).has_end(); ++i) {
      bench_->RunUntil([&] { return bench_->Status(key_).has_end(); });
    }
    const TaskEnd end = bench_->Status(key_).end();
    EXPECT_EQ(end.cause(), TaskEnd::CAUSE_EXITED) << end.message();
    std::vector<std::string> lines = LogLines(bench_->Folder(key_));
    for (const std::string& line : lines) printf("task: %s\n", line.c_str());
    return lines;
  }

  static bool HasTorch(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      if (absl::StrContains(line, "No module named") || absl::StrContains(line, "not found")) {
        printf("without PyTorch: %s\n", line.c_str());
        return false;
      }
    }
    return true;
  }

  std::unique_ptr<ProcessBench> bench_;
  std::vector<WholeGpu> gpus_;
  TaskKey key_;
};

TEST_F(GpuTaskMachineTest, ATaskWithOneGpuReckonsOnItAndSeesNoOther) {
  GpuBook book;
  const auto picked = book.Pick({"j", 1, "w", 0}, {{gpus_.front().resource, 1}}, gpus_);
  ASSERT_TRUE(picked.ok()) << picked.status();
  const WholeGpu& gpu = picked->front();
  printf("given: %s, /dev/nvidia%d, %s\n", gpu.uuid.c_str(), gpu.minor.value_or(-1),
         gpu.resource.c_str());
  const std::vector<std::string> lines = Look(*picked);
  EXPECT_THAT(lines, Contains(HasSubstr(absl::StrCat("nvidia", *gpu.minor))));
  EXPECT_THAT(lines, Contains(testing::AllOf(HasSubstr("smi: 1 lines"), HasSubstr(gpu.uuid))));
  if (!HasTorch(lines)) return;
  EXPECT_THAT(lines, Contains("devices: 1 available: True"));
  EXPECT_THAT(lines, Contains(HasSubstr("product: 18432.0")));
  EXPECT_THAT(lines, Contains("second: none"));
}

TEST_F(GpuTaskMachineTest, ATaskWithoutGpusSeesNone) {
  const std::vector<std::string> lines = Look({});
  EXPECT_THAT(lines, Contains("files:"));
  EXPECT_THAT(lines, Not(Contains(HasSubstr(gpus_.front().uuid))));
  if (!HasTorch(lines)) return;
  EXPECT_THAT(lines, Contains("devices: 0 available: False"));
}

}  // namespace
}  // namespace capstan::node_agent
