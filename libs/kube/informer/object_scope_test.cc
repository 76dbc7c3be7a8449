#include "libs/kube/informer/object_scope.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/kube/informer/reflector.h"
#include "libs/kube/objects/encoding.h"

namespace capstan::kube {
namespace {

const ObjectScope kPods{{"", "v1", "Pod", "pods", true}, "", "", ""};
const ObjectScope kSome{{"apps", "v1", "Deployment", "deployments", true},
                        "web",
                        "app=a b,tier!=x",
                        "metadata.name=é&limit=1"};

TEST(ObjectScopeTest, WritesTargetsOfLists) {
  EXPECT_EQ(ListTarget(kPods, {1, 0, ""}), "/api/v1/pods");
  EXPECT_EQ(ListTarget(kPods, {1, 500, "a+/="}), "/api/v1/pods?limit=500&continue=a%2b%2f%3d");
  EXPECT_EQ(ListTarget(kSome, {1, 5, ""}),
            "/apis/apps/v1/namespaces/web/deployments?labelSelector=app%3da%20b%2ctier%21%3dx"
            "&fieldSelector=metadata.name%3d%c3%a9%26limit%3d1&limit=5");
}

TEST(ObjectScopeTest, WritesTargetsOfWatches) {
  EXPECT_EQ(WatchTarget(kPods, {1, "12", false, absl::Seconds(300)}),
            "/api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds=300"
            "&resourceVersion=12");
  EXPECT_EQ(WatchTarget(kPods, {1, "", true, absl::Milliseconds(5)}),
            "/api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds=1"
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
}

TEST(ObjectScopeTest, SaysForPeopleWhatItIs) {
  EXPECT_EQ(ToString(kPods), "pods");
  EXPECT_EQ(ToString(kSome),
            "deployments.apps in web with labels app=a b,tier!=x with fields metadata.name=é"
            "&limit=1");
  EXPECT_STREQ(MediaType(Encoding::kProtobuf), "application/vnd.kubernetes.protobuf");
}

}  // namespace
}  // namespace capstan::kube
