#include "services/node_agent/adapters/process_task_runtime.h"

#include <memory>

#include "gtest/gtest.h"
#include "services/node_agent/adapters/process_bench.h"
#include "services/node_agent/ports/task_runtime_conformance.h"

namespace capstan::node_agent {
namespace {

std::unique_ptr<TaskRuntimeBench> MakeBench() { return std::make_unique<ProcessBench>(); }

INSTANTIATE_TEST_SUITE_P(Process, TaskRuntimeConformanceTest, ::testing::Values(&MakeBench));

}  // namespace
}  // namespace capstan::node_agent
