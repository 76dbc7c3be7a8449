#include "tools/testenv/kubernetes_cluster.h"

#include <stdio.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace capstan::testenv {
namespace {

using Part = KubernetesCluster::Part;

class KubernetesClusterTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto shared = KubernetesCluster::Shared();
    ASSERT_TRUE(shared.ok()) << shared.status();
    kubernetes_ = *shared;
  }

  std::string Kubectl(const std::string& arguments) const {
    const std::string command =
        absl::StrCat("HOME=", testing::TempDir(), " ", kubernetes_->kubectl(),
                     " --kubeconfig=", kubernetes_->kubeconfig(), " ", arguments, " 2>&1");
    FILE* const output = popen(command.c_str(), "r");
    std::string said;
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, output)) > 0;) said.append(buffer, n);
    pclose(output);
    return said;
  }

  KubernetesCluster* kubernetes_ = nullptr;
};

TEST_F(KubernetesClusterTest, ATestHasANamespaceOfItsOwnWithAServiceAccount) {
  const auto first = kubernetes_->CreateNamespace();
  const auto second = kubernetes_->CreateNamespace();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE(*first, *second);
  EXPECT_EQ(Kubectl(absl::StrCat("-n ", *first, " get serviceaccount default -o name")),
            "serviceaccount/default\n");
}

TEST_F(KubernetesClusterTest, ItIsTheSameForAllTestsOfAProcess) {
  EXPECT_EQ(*KubernetesCluster::Shared(), kubernetes_);
}

TEST_F(KubernetesClusterTest, PartsAreKilledAndStartedAgainWithWhatTheyHad) {
  const auto space = kubernetes_->CreateNamespace();
  ASSERT_TRUE(space.ok()) << space.status();
  for (const Part part : {Part::kApiServer, Part::kEtcd}) {
    const pid_t before = kubernetes_->pid(part);
    kubernetes_->Kill(part);
    EXPECT_FALSE(kubernetes_->IsRunning(part));
    const absl::Status restarted = kubernetes_->Restart(part);
    ASSERT_TRUE(restarted.ok()) << restarted;
    EXPECT_NE(kubernetes_->pid(part), before);
  }
  EXPECT_EQ(Kubectl(absl::StrCat("get namespace ", *space, " -o name")),
            absl::StrCat("namespace/", *space, "\n"));
}

TEST_F(KubernetesClusterTest, AStoppedApiServerAnswersNobodyUntilItGoesOn) {
  kubernetes_->Stop(Part::kApiServer);
  // kubectl says it in one of two ways.
  const std::string said = Kubectl("--request-timeout=1s get namespaces");
  EXPECT_TRUE(absl::StrContains(said, "imeout") || absl::StrContains(said, "deadline exceeded"))
      << said;
  kubernetes_->Continue(Part::kApiServer);
  EXPECT_TRUE(kubernetes_->CreateNamespace().ok());
}

TEST_F(KubernetesClusterTest, EtcdIsCompactedAtItsRevision) {
  const auto first = kubernetes_->CompactEtcd();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(kubernetes_->CreateNamespace().ok());
  const auto second = kubernetes_->CompactEtcd();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_GT(*second, *first);
}

}  // namespace
}  // namespace capstan::testenv
