#include <cstdint>

#include "gtest/gtest.h"
#include "integration/kube/informer_exercise.h"
#include "tools/testenv/kubernetes_cluster.h"

namespace capstan::kube::testing {
namespace {

class FaultsSoak : public ::testing::TestWithParam<uint64_t> {};

TEST_P(FaultsSoak, ConvergesThroughFaults) {
  const auto cluster = testenv::KubernetesCluster::Shared();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ExerciseInformers(*cluster, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Seeds, FaultsSoak, ::testing::Range(uint64_t{1}, uint64_t{51}));

}  // namespace
}  // namespace capstan::kube::testing
