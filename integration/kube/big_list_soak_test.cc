#include <cstddef>

#include "gtest/gtest.h"
#include "integration/kube/big_list_exercise.h"
#include "tools/testenv/kubernetes_cluster.h"

namespace capstan::kube::testing {
namespace {

constexpr size_t kObjects = 100'000;

TEST(BigListSoak, OfTheServer) {
  const auto cluster = testenv::KubernetesCluster::Shared();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ExerciseBigListOfServer(*cluster, kObjects);
}

TEST(BigListSoak, OfTheFake) { ExerciseBigListOfFake(kObjects); }

}  // namespace
}  // namespace capstan::kube::testing
