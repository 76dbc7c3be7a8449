#ifndef CAPSTAN_INTEGRATION_ETCD_CLUSTER_FIXTURE_H_
#define CAPSTAN_INTEGRATION_ETCD_CLUSTER_FIXTURE_H_

#include "gtest/gtest.h"
#include "tools/testenv/etcd_server.h"

namespace capstan::store {

// Tests of one program that share three members of etcd, which each leaves well.
class EtcdClusterTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto etcd = testenv::EtcdServer::Start({.members = 3});
    ASSERT_TRUE(etcd.ok()) << etcd.status();
    etcd_ = etcd->release();
  }
  static void TearDownTestSuite() {
    delete etcd_;
    etcd_ = nullptr;
  }

  static inline testenv::EtcdServer* etcd_ = nullptr;
};

}  // namespace capstan::store

#endif  // CAPSTAN_INTEGRATION_ETCD_CLUSTER_FIXTURE_H_
