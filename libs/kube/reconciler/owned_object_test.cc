#include "libs/kube/reconciler/owned_object.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/kube/objects/conditions.h"
#include "libs/kube/objects/resources.h"

namespace capstan::kube {
namespace {

TEST(OwnedObjectTest, AControllerIsSetOnceAndFound) {
  core_v1::Pod pod;
  EXPECT_TRUE(ControllerUids(pod).empty());
  apps_v1::DaemonSet owner;
  owner.mutable_metadata()->set_name("set");
  EXPECT_FALSE(SetController(kDaemonSets.type(), owner, &pod).ok());
  EXPECT_EQ(pod.metadata().owner_references_size(), 0);
  owner.mutable_metadata()->set_uid("7");
  ASSERT_TRUE(SetController(kDaemonSets.type(), owner, &pod).ok());
  ASSERT_TRUE(SetController(kDaemonSets.type(), owner, &pod).ok());
  EXPECT_EQ(OwnersOf(pod),
            (std::vector<OwnerReference>{{"apps/v1", "DaemonSet", "set", "7", true, true}}));
  EXPECT_EQ(ControllerUids(pod), std::vector<std::string>{"7"});
  owner.mutable_metadata()->set_uid("8");
  EXPECT_FALSE(SetController(kDaemonSets.type(), owner, &pod).ok());
  EXPECT_EQ(ControllerUids(pod), std::vector<std::string>{"7"});
}

TEST(ConditionsTest, OnlyTrueIsTrue) {
  core_v1::Pod pod;
  EXPECT_FALSE(IsTrue(pod.status().conditions(), "Ready"));
  auto* const condition = pod.mutable_status()->add_conditions();
  condition->set_type("Ready");
  for (const char* status : {"False", "Unknown", "True"}) {
    condition->set_status(status);
    EXPECT_EQ(IsTrue(pod.status().conditions(), "Ready"), std::string(status) == "True");
  }
}

}  // namespace
}  // namespace capstan::kube
