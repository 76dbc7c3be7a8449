#include "libs/kube/objects/resource_type.h"

#include "gtest/gtest.h"

namespace capstan::kube {
namespace {

const ResourceType kPods = {"", "v1", "Pod", "pods", true};
const ResourceType kNodes = {"", "v1", "Node", "nodes", false};
const ResourceType kDeployments = {"apps", "v1", "Deployment", "deployments", true};

TEST(ResourceTypeTest, WritesApiVersions) {
  EXPECT_EQ(ApiVersion(kPods), "v1");
  EXPECT_EQ(ApiVersion(kDeployments), "apps/v1");
}

TEST(ResourceTypeTest, WritesPaths) {
  EXPECT_EQ(CollectionPath(kPods, ""), "/api/v1/pods");
  EXPECT_EQ(CollectionPath(kPods, "a"), "/api/v1/namespaces/a/pods");
  EXPECT_EQ(CollectionPath(kNodes, "a"), "/api/v1/nodes");
  EXPECT_EQ(ObjectPath(kDeployments, "a", "web"), "/apis/apps/v1/namespaces/a/deployments/web");
  EXPECT_EQ(ObjectPath(kPods, "a", "p", "binding"), "/api/v1/namespaces/a/pods/p/binding");
}

TEST(ResourceTypeTest, LetsNoNameLeaveItsSegment) {
  EXPECT_EQ(ObjectPath(kPods, "a/b", "c?d#e%f"), "/api/v1/namespaces/a%2fb/pods/c%3fd%23e%25f");
  EXPECT_EQ(ObjectPath(kPods, "..", "."), "/api/v1/namespaces/%00/pods/%00");
  EXPECT_EQ(ObjectPath(kNodes, "", ""), "/api/v1/nodes/%00");
  EXPECT_EQ(ObjectPath(kNodes, "", "\xc3\xa9"), "/api/v1/nodes/%c3%a9");
}

}  // namespace
}  // namespace capstan::kube
