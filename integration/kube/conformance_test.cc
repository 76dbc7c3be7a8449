// The cases that the fake API server passes, on kube-apiserver: see api_conformance.h.
#include <memory>
#include <ostream>
#include <string>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "integration/kube/real_cluster.h"
#include "libs/kube/testing/api_conformance.h"
#include "tools/testenv/kubernetes_cluster.h"

namespace capstan::kube::testing {

// GoogleTest's own way prints the bytes.
void PrintTo(const ConformanceCase& one, std::ostream* out) { *out << one.name; }

namespace {

class KubeApiServer : public ::testing::TestWithParam<ConformanceCase> {
 protected:
  static void SetUpTestSuite() {
    const auto cluster = testenv::KubernetesCluster::Shared();
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *cluster;
    const auto config = AdminConfig(**cluster);
    ASSERT_TRUE(config.ok()) << config.status();
    auto made = MakeTransport(*config);
    ASSERT_TRUE(made.ok()) << made.status();
    transport_ = made->release();
  }
  static void TearDownTestSuite() {
    delete transport_;
    transport_ = nullptr;
  }

  // Its own memory of past states goes too.
  static void RestartApiServer() {
    cluster_->Kill(testenv::KubernetesCluster::Part::kApiServer);
    const absl::Status restarted = cluster_->Restart(testenv::KubernetesCluster::Part::kApiServer);
    ASSERT_TRUE(restarted.ok()) << restarted;
  }

  static testenv::KubernetesCluster* cluster_;
  static RealTransport* transport_;
};

testenv::KubernetesCluster* KubeApiServer::cluster_ = nullptr;
RealTransport* KubeApiServer::transport_ = nullptr;

TEST_P(KubeApiServer, Conforms) {
  ASSERT_NE(transport_, nullptr);
  ConformanceTarget target;
  target.transport = transport_->transport.get();
  target.restart = [] { RestartApiServer(); };
  target.compact = [] {
    const auto compacted = cluster_->CompactEtcd();
    ASSERT_TRUE(compacted.ok()) << compacted.status();
    RestartApiServer();
  };
  const auto failures = RunConformanceCase(GetParam(), target);
  EXPECT_TRUE(failures.empty()) << absl::StrJoin(failures, "\n");
}

INSTANTIATE_TEST_SUITE_P(All, KubeApiServer, ::testing::ValuesIn(ConformanceCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace capstan::kube::testing
