#include "services/node_agent/adapters/process_task_runtime.h"

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "services/node_agent/adapters/process_bench.h"
#include "services/node_agent/ports/task_runtime_conformance.h"

namespace capstan::node_agent {
namespace {

// The machine's mounts without those that contain `word`.
std::string MountsWithout(const std::string& word) {
  const std::string path = absl::StrCat(getenv("TEST_TMPDIR"), "/mountinfo");
  std::ifstream in("/proc/self/mountinfo");
  std::ofstream out(path);
  std::string line;
  while (std::getline(in, line)) {
    if (!absl::StrContains(line, word)) out << line << "\n";
  }
  return path;
}

std::unique_ptr<TaskRuntimeBench> MakeBench() { return ProcessBench::Make(); }

// As on a machine that has v1 hierarchies only: freeze, kill, thaw.
std::unique_ptr<TaskRuntimeBench> MakeFreezerBench() {
  return ProcessBench::Make(MountsWithout(" - cgroup2 "));
}

// As for an ordinary user: the PID namespace alone holds a Task together.
std::unique_ptr<TaskRuntimeBench> MakeNamespaceBench() {
  return ProcessBench::Make(MountsWithout(" - cgroup"));
}

INSTANTIATE_TEST_SUITE_P(Process, TaskRuntimeConformanceTest, ::testing::Values(&MakeBench));
INSTANTIATE_TEST_SUITE_P(Freezer, TaskRuntimeConformanceTest, ::testing::Values(&MakeFreezerBench));
INSTANTIATE_TEST_SUITE_P(NamespaceOnly, TaskRuntimeConformanceTest,
                         ::testing::Values(&MakeNamespaceBench));

}  // namespace
}  // namespace capstan::node_agent
