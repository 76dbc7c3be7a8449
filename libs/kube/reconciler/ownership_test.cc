#include "libs/kube/reconciler/ownership.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

OwnerReference Owner(std::string name, std::string uid) {
  return {.api_version = "apps/v1", .kind = "ReplicaSet", .name = name, .uid = uid};
}

TEST(OwnershipTest, OneOwnerControls) {
  std::vector<OwnerReference> owners = {Owner("a", "1")};
  EXPECT_EQ(FindController(owners), nullptr);
  ASSERT_TRUE(SetController(Owner("a", "1"), &owners).ok());
  ASSERT_EQ(owners.size(), 1u);
  EXPECT_EQ(FindController(owners)->name, "a");
  const std::vector<OwnerReference> before = owners;
  EXPECT_EQ(status::Reason(SetController(Owner("b", "2"), &owners)), "ALREADY_CONTROLLED");
  EXPECT_EQ(owners, before);
  EXPECT_EQ(status::Reason(SetController(Owner("b", ""), &owners)), "INCOMPLETE_OWNER");
}

TEST(OwnershipTest, FindsOwnersOfAKindInAnyVersionOfItsGroup) {
  std::vector<OwnerReference> owners = {Owner("a", "1"), Owner("b", "2"), Owner("a", "3")};
  owners[1].api_version = "apps/v1beta2";
  EXPECT_EQ(OwnersOfKind(owners, "apps", "ReplicaSet"), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(OwnersOfKind(owners, "", "ReplicaSet").empty());
  EXPECT_TRUE(OwnersOfKind(owners, "apps", "Job").empty());
}

TEST(OwnershipTest, FinalizersComeAndGoOnce) {
  std::vector<std::string> finalizers = {"other"};
  EXPECT_TRUE(AddFinalizer("mine", &finalizers));
  EXPECT_FALSE(AddFinalizer("mine", &finalizers));
  EXPECT_TRUE(RemoveFinalizer("mine", &finalizers));
  EXPECT_FALSE(RemoveFinalizer("mine", &finalizers));
  EXPECT_EQ(finalizers, std::vector<std::string>{"other"});
}

}  // namespace
}  // namespace capstan::kube
