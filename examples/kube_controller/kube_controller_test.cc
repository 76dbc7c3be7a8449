// The program against a real control plane, whose kubelets kwok plays.
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tools/testenv/kubernetes_cluster.h"

namespace capstan::examples {
namespace {

class KubeControllerTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto shared = testenv::KubernetesCluster::Shared();
    ASSERT_TRUE(shared.ok()) << shared.status();
    kubernetes_ = *shared;
    const auto made = kubernetes_->CreateNamespace();
    ASSERT_TRUE(made.ok()) << made.status();
    namespace_ = *made;
  }

  // Its exit status; what it says is in the log of the test.
  int Kubectl(const std::string& arguments, const std::string& input = "") const {
    const std::string command = absl::StrCat(
        "HOME=", testing::TempDir(), " ", kubernetes_->kubectl(),
        " --kubeconfig=", kubernetes_->kubeconfig(), " -n ", namespace_, " ", arguments, " >&2");
    FILE* const kubectl = popen(command.c_str(), "w");
    fputs(input.c_str(), kubectl);
    return pclose(kubectl);
  }
  int AwaitReady(int ready) const {
    return Kubectl(
        absl::StrCat("wait podset/web --timeout=60s --for=jsonpath={.status.ready}=", ready));
  }

  testenv::KubernetesCluster* kubernetes_ = nullptr;
  std::string namespace_;
};

constexpr char kNode[] = R"({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n",
    "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {"type": "kwok"}}})";
constexpr char kSet[] = R"({"apiVersion": "examples.capstan.dev/v1", "kind": "PodSet",
    "metadata": {"name": "web"}, "spec": {"replicas": 3, "template": {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}}})";

TEST_F(KubeControllerTest, KeepsPodsUntilItIsToldToEnd) {
  ASSERT_EQ(Kubectl("apply -f -", kNode), 0);
  ASSERT_EQ(Kubectl("apply -f examples/kube_controller/crd.yaml"), 0);
  ASSERT_EQ(Kubectl("wait crd/podsets.examples.capstan.dev --for=condition=Established "
                    "--timeout=60s"),
            0);
  const std::string kubeconfig = absl::StrCat("KUBECONFIG=", kubernetes_->kubeconfig());
  const pid_t controller = fork();
  if (controller == 0) {
    char* const arguments[] = {const_cast<char*>("kube_controller"), nullptr};
    char* const variables[] = {const_cast<char*>(kubeconfig.c_str()), nullptr};
    execve("examples/kube_controller/kube_controller", arguments, variables);
    _exit(127);
  }
  ASSERT_EQ(Kubectl("apply -f -", kSet), 0);
  EXPECT_EQ(AwaitReady(3), 0);
  EXPECT_EQ(Kubectl("get pods web-0 web-1 web-2"), 0);
  EXPECT_EQ(Kubectl("patch podset web --type=merge -p '{\"spec\":{\"replicas\":1}}'"), 0);
  EXPECT_EQ(Kubectl("wait pod/web-1 pod/web-2 --for=delete --timeout=60s"), 0);
  EXPECT_EQ(AwaitReady(1), 0);
  EXPECT_EQ(Kubectl("delete pod web-0 --wait=false"), 0);
  EXPECT_EQ(AwaitReady(1), 0);
  EXPECT_EQ(Kubectl("delete podset web --cascade=foreground --timeout=60s"), 0);
  EXPECT_NE(Kubectl("get pod web-0"), 0);
  kill(controller, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(controller, &status, 0), controller);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace capstan::examples
