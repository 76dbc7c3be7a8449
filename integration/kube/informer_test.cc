#include <cstdint>

#include "gtest/gtest.h"
#include "integration/kube/informer_exercise.h"
#include "tools/testenv/kubernetes_cluster.h"

namespace capstan::kube::testing {
namespace {

class InformerTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(InformerTest, ConvergesThroughFaults) {
  const auto cluster = testenv::KubernetesCluster::Shared();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ExerciseInformers(*cluster, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Seeds, InformerTest, ::testing::Range(uint64_t{1}, uint64_t{4}));

}  // namespace
}  // namespace capstan::kube::testing
