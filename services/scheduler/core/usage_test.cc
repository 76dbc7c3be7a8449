#include "services/scheduler/core/usage.h"

#include <cstdint>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::scheduler {
namespace {

using capstan::type::v1::NodeObservation;

void AddGpu(int index, const std::string& model, NodeObservation* node) {
  node->add_mig_gpus()->set_index(index);
  node->mutable_mig_gpus()->rbegin()->set_model(model);
}

int64_t CountOf(const Amounts& amounts, const std::string& accelerator) {
  const auto found = amounts.accelerators.find(accelerator);
  return found == amounts.accelerators.end() ? 0 : found->second;
}

TEST(UsageTest, GpusInMigModeCountByMemorySlicesOfTheirModel) {
  NodeObservation node;
  node.mutable_allocatable()->set_cpu_millis(8);
  (*node.mutable_allocatable()->mutable_accelerators())["nvidia.com/h100"] = 6;
  AddGpu(6, "H100-80GB", &node);
  AddGpu(7, "H100-80GB", &node);
  AddGpu(8, "A30-24GB", &node);
  const Amounts all = AllocatableOf(node);
  EXPECT_EQ(all.cpu_millis, 8);
  EXPECT_EQ(CountOf(all, "nvidia.com/h100"), 6);
  EXPECT_EQ(CountOf(all, "mig/h100-80gb"), 16);
  EXPECT_EQ(CountOf(all, "mig/a30-24gb"), 4);
  EXPECT_EQ(all.mig.Gpus().size(), 3u);
  std::set<std::string> names;
  AddAccelerators(node, &names);
  EXPECT_EQ(names, (std::set<std::string>{"mig/a30-24gb", "mig/h100-80gb", "nvidia.com/h100"}));
}

TEST(UsageTest, AGpuIsThereOnceAndOnlyOfAModelThatIsKnown) {
  NodeObservation node;
  AddGpu(0, "H100-80GB", &node);
  AddGpu(0, "A30-24GB", &node);
  AddGpu(1, "H900", &node);
  AddGpu(-1, "H100-80GB", &node);
  AddGpu(64, "H100-80GB", &node);
  const Amounts all = AllocatableOf(node);
  ASSERT_EQ(all.mig.Gpus().size(), 1u);
  EXPECT_EQ(all.mig.Gpus()[0].gpu, 0);
  EXPECT_EQ(CountOf(all, "mig/h100-80gb"), 8);
  EXPECT_EQ(CountOf(all, "mig/a30-24gb"), 0);
}

TEST(UsageTest, ANodeCannotHaveMemorySlicesWithoutGpus) {
  NodeObservation node;
  (*node.mutable_allocatable()->mutable_accelerators())["mig/h100-80gb"] = 80;
  EXPECT_EQ(AllocatableOf(node), Amounts());
  AddGpu(0, "H100-80GB", &node);
  EXPECT_EQ(CountOf(AllocatableOf(node), "mig/h100-80gb"), 8);
}

}  // namespace
}  // namespace capstan::scheduler
