#include "tools/capstan/cli/node_text.h"

#include <utility>

#include "gtest/gtest.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::cli {
namespace {

TEST(NodeTextTest, ShowsMemorySlicesInUse) {
  scheduler::v1::Node node;
  EXPECT_EQ(AcceleratorsText(node), "");
  (*node.mutable_allocatable()->mutable_accelerators())["nvidia.com/h100"] = 6;
  (*node.mutable_allocatable()->mutable_accelerators())["mig/h100-80gb"] = 16;
  EXPECT_EQ(AcceleratorsText(node), "mig/h100-80gb=0/16,nvidia.com/h100=6");
  (*node.mutable_allocated()->mutable_accelerators())["mig/h100-80gb"] = 10;
  EXPECT_EQ(AcceleratorsText(node), "mig/h100-80gb=10/16,nvidia.com/h100=6");
}

TEST(NodeTextTest, ShowsTaintsWithTheirValues) {
  scheduler::v1::Node node;
  EXPECT_EQ(TaintsText(node), "");
  node.add_taints()->set_key("old");
  auto& team = *node.add_taints();
  team.set_key("team");
  team.set_value("vision");
  EXPECT_EQ(TaintsText(node), "old,team=vision");
}

TEST(NodeTextTest, ShowsWhatTasksHaveOfAGpu) {
  scheduler::v1::NodeMigGpu gpu;
  gpu.mutable_gpu()->set_index(3);
  gpu.mutable_gpu()->set_model("H100-80GB");
  EXPECT_EQ(MigGpuText(gpu), "3: H100-80GB, nothing of it in use");
  for (const auto& [profile, start] : {std::pair("4g.40gb", 0), std::pair("1g.10gb", 6)}) {
    type::v1::MigInstance& instance = *gpu.add_instances();
    instance.set_profile(profile);
    instance.set_start(start);
  }
  EXPECT_EQ(MigGpuText(gpu), "3: H100-80GB, 4g.40gb at 0, 1g.10gb at 6");
}

}  // namespace
}  // namespace capstan::cli
