#include "services/node_agent/core/shim_spec.h"

#include <string>

#include "gtest/gtest.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimSpec;

ShimSpec Build(const Isolation& isolation) {
  capstan::type::v1::DesiredTask order;
  order.mutable_launch()->add_argv("/bin/true");
  // Not the Job's to choose.
  (*order.mutable_launch()->mutable_env())["SPIFFE_ENDPOINT_SOCKET"] = "unix:///tmp/mine";
  capstan::nodeagent::record::v1::Task task;
  task.set_folder("/data/tasks/j/1/w-0");
  return BuildShimSpec({"j", 1, "w", 0}, order, task, isolation, 1, BootTime::FromNanoseconds(1));
}

std::string Variable(const ShimSpec& spec, const std::string& name) {
  for (const std::string& variable : spec.env()) {
    if (variable.rfind(name + "=", 0) == 0) return variable.substr(name.size() + 1);
  }
  return "";
}

const ShimSpec::Mount* MountOf(const ShimSpec& spec, const std::string& source) {
  for (const ShimSpec::Mount& mount : spec.mounts()) {
    if (mount.source() == source) return &mount;
  }
  return nullptr;
}

TEST(ShimSpecTest, CudaFindsTheMigInstanceOfTheTaskAndNothingElse) {
  capstan::type::v1::DesiredTask order;
  (*order.mutable_launch()->mutable_env())["CUDA_VISIBLE_DEVICES"] = "0,1";
  capstan::nodeagent::record::v1::Task task;
  task.set_mig_device("MIG-00000000-0000-0000-0000-000000000001");
  const auto environment = TaskEnvironment({"j", 1, "w", 0}, order, task);
  EXPECT_EQ(environment.at("CUDA_VISIBLE_DEVICES"), task.mig_device());
  EXPECT_EQ(environment.at("NVIDIA_VISIBLE_DEVICES"), task.mig_device());
  task.clear_mig_device();
  EXPECT_EQ(TaskEnvironment({"j", 1, "w", 0}, order, task).at("NVIDIA_VISIBLE_DEVICES"), "void");
}

TEST(ShimSpecTest, CudaFindsTheGpusOfTheTaskWhateverTheJobSays) {
  capstan::type::v1::DesiredTask order;
  (*order.mutable_launch()->mutable_env())["CUDA_VISIBLE_DEVICES"] = "0,1";
  capstan::nodeagent::record::v1::Task task;
  task.add_gpus("GPU-b");
  task.add_gpus("GPU-a");
  const auto environment = TaskEnvironment({"j", 1, "w", 0}, order, task);
  EXPECT_EQ(environment.at("CUDA_VISIBLE_DEVICES"), "GPU-b,GPU-a");
  EXPECT_EQ(environment.at("NVIDIA_VISIBLE_DEVICES"), "GPU-b,GPU-a");
}

TEST(ShimSpecTest, EveryTaskFindsTheWorkloadApi) {
  Isolation isolation;
  isolation.namespaces = true;
  isolation.hidden_paths = {"/data"};
  isolation.workload_folder = "/data/workload";
  const ShimSpec spec = Build(isolation);
  EXPECT_EQ(Variable(spec, "SPIFFE_ENDPOINT_SOCKET"), "unix:///capstan/workload/api.sock");
  const ShimSpec::Mount* mount = MountOf(spec, "/data/workload");
  ASSERT_NE(mount, nullptr);
  EXPECT_EQ(mount->target(), "/capstan/workload");
  EXPECT_TRUE(mount->read_only());
}

TEST(ShimSpecTest, WithoutNamespacesItIsWhereItLies) {
  Isolation isolation;
  isolation.workload_folder = "/data/workload";
  EXPECT_EQ(Variable(Build(isolation), "SPIFFE_ENDPOINT_SOCKET"), "unix:///data/workload/api.sock");
}

TEST(ShimSpecTest, ATaskContinuesTheTraceOfItsOrder) {
  capstan::type::v1::DesiredTask order;
  (*order.mutable_launch()->mutable_env())["TRACEPARENT"] = "of the Job's own";
  const capstan::nodeagent::record::v1::Task task;
  EXPECT_EQ(TaskEnvironment({"j", 1, "w", 0}, order, task).at("TRACEPARENT"), "of the Job's own");
  order.mutable_launch()->set_traceparent(
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  const std::string traceparent = TaskEnvironment({"j", 1, "w", 0}, order, task).at("TRACEPARENT");
  EXPECT_EQ(traceparent.substr(0, 36), "00-4bf92f3577b34da6a3ce929d0e0e4736-");
  EXPECT_EQ(traceparent.substr(52), "-01");
  EXPECT_NE(traceparent.substr(36, 16), "00f067aa0ba902b7");
}

TEST(ShimSpecTest, ATaskOfAnElementKnowsWhichItIs) {
  capstan::type::v1::DesiredTask order;
  // As every name that begins so, not the Job's to set.
  (*order.mutable_launch()->mutable_env())["CAPSTAN_ARRAY_INDEX"] = "9";
  const capstan::nodeagent::record::v1::Task task;
  const session::TaskId id{"j", 1, "w", 0};
  EXPECT_EQ(TaskEnvironment(id, order, task).count("CAPSTAN_ARRAY_INDEX"), 0u);
  order.mutable_launch()->mutable_element()->set_array("projects/p/jobs/sweep");
  order.mutable_launch()->mutable_element()->set_size(3);
  const auto environment = TaskEnvironment(id, order, task);
  EXPECT_EQ(environment.at("CAPSTAN_ARRAY"), "projects/p/jobs/sweep");
  EXPECT_EQ(environment.at("CAPSTAN_ARRAY_INDEX"), "0");
  EXPECT_EQ(environment.at("CAPSTAN_ARRAY_SIZE"), "3");
}

TEST(ShimSpecTest, ANodeWithoutOneSetsNothing) {
  Isolation isolation;
  isolation.namespaces = true;
  const ShimSpec spec = Build(isolation);
  EXPECT_EQ(Variable(spec, "SPIFFE_ENDPOINT_SOCKET"), "unix:///tmp/mine");
  for (const ShimSpec::Mount& mount : spec.mounts()) {
    EXPECT_NE(mount.target(), "/capstan/workload");
  }
}

}  // namespace
}  // namespace capstan::node_agent
