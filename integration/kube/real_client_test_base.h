#ifndef CAPSTAN_INTEGRATION_KUBE_REAL_CLIENT_TEST_BASE_H_
#define CAPSTAN_INTEGRATION_KUBE_REAL_CLIENT_TEST_BASE_H_

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "integration/kube/real_client.h"
#include "integration/kube/real_cluster.h"
#include "libs/kube/config/client_config.h"
#include "tools/testenv/kubernetes_cluster.h"

namespace capstan::kube::testing {

// The control plane that the tests of a process share, an administrator's client of it and a
// namespace of the test's own. A SetUp that overrides it calls it first, and returns upon
// HasFatalFailure.
class RealClientTestBase : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto shared = testenv::KubernetesCluster::Shared();
    ASSERT_TRUE(shared.ok()) << shared.status();
    cluster_ = *shared;
    const auto config = AdminConfig(*cluster_);
    ASSERT_TRUE(config.ok()) << config.status();
    config_ = *config;
    client_ = std::make_unique<RealClient>(config_);
    ns_ = cluster_->CreateNamespace().value();
  }

  testenv::KubernetesCluster* cluster_ = nullptr;
  ClientConfig config_;
  std::unique_ptr<RealClient> client_;
  std::string ns_;
};

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_INTEGRATION_KUBE_REAL_CLIENT_TEST_BASE_H_
