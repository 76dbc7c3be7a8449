// If these fail, a client goes to another cluster than kubectl would.
#include "libs/kube/config/load_client_config.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/kube/config/client_config.h"
#include "libs/kube/config/environment.h"
#include "libs/kube/config/in_cluster.h"
#include "libs/kube/config/make_credential_source.h"
#include "libs/kube/config/testing/key_pair.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/status/error.h"
#include "libs/time/simulated_clock.h"

namespace capstan::kube {
namespace {

class LoadClientConfigTest : public testing::Test {
 protected:
  LoadClientConfigTest() {
    environment_.home = Path("home");
    environment_.root = Path("root");
  }

  std::string Path(const std::string& name) { return absl::StrCat(folder_.path(), "/", name); }
  std::string Write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    const std::string path = Path(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }
  std::string Kubeconfig(const std::string& name, const std::string& cluster_fields = "") {
    return Write(name, absl::StrCat("current-context: c\n"
                                    "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
                                    "users: [{name: u, user: {token: tok}}]\n"
                                    "clusters: [{name: k, cluster: {server: 'https://",
                                    std::filesystem::path(name).filename().string(), "'",
                                    cluster_fields, "}}]\n"));
  }
  void MakePod() {
    const std::string account = "root/var/run/secrets/kubernetes.io/serviceaccount/";
    Write(account + "token", "pod-token");
    Write(account + "ca.crt", pair_.certificate_pem);
    Write(account + "namespace", "ns-of-pod\n");
    environment_.variables["KUBERNETES_SERVICE_HOST"] = "fd00::1";
    environment_.variables["KUBERNETES_SERVICE_PORT"] = "6443";
  }
  std::string Server(const LoadOptions& options = {}) {
    const auto config = LoadClientConfig(environment_, options);
    return config.ok() ? config->server : status::Reason(config.status());
  }

  TemporaryFolder folder_;
  Environment environment_;
  const KeyPair pair_ = MakeKeyPair();
};

TEST_F(LoadClientConfigTest, LooksInKubectlsOrder) {
  EXPECT_EQ(Server(), "KUBE_NO_CONFIG");
  MakePod();
  EXPECT_EQ(Server(), "https://[fd00::1]:6443");
  Kubeconfig("home/.kube/config");
  EXPECT_EQ(Server(), "https://config");
  environment_.variables["KUBECONFIG"] = absl::StrCat(":", Path("gone"), ":", Kubeconfig("one"));
  EXPECT_EQ(Server(), "https://one");
  LoadOptions options;
  options.explicit_path = Kubeconfig("two");
  EXPECT_EQ(Server(options), "https://two");
  options.explicit_path = Path("gone");
  EXPECT_EQ(Server(options), "FILE_NOT_FOUND");
  options.explicit_path = Write("empty", "");
  EXPECT_EQ(Server(options), "KUBE_NO_CONTEXT") << "a file that was named must choose";
  environment_.variables["KUBECONFIG"] = Path("empty");
  EXPECT_EQ(Server(), "https://[fd00::1]:6443");
  Write("bad", "clusters: 3");
  environment_.variables["KUBECONFIG"] = Path("bad");
  EXPECT_EQ(Server(), "KUBE_BAD_CONFIG");
}

TEST_F(LoadClientConfigTest, WarnsOfWhatIsMissingAndReadable) {
  chmod(Kubeconfig("one").c_str(), 0644);
  environment_.variables["KUBECONFIG"] = absl::StrCat(Path("gone"), ":", Path("one"));
  const auto config = LoadClientConfig(environment_, {});
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->warnings.size(), 2u);
  EXPECT_TRUE(absl::StrContains(config->warnings[0], "gone"));
  EXPECT_TRUE(absl::StrContains(config->warnings[1], "mode 0644"));
}

TEST_F(LoadClientConfigTest, ReadsTheCaBesideTheKubeconfig) {
  LoadOptions options;
  options.explicit_path = Kubeconfig("d/one", ", certificate-authority: ca.pem");
  EXPECT_EQ(Server(options), "FILE_NOT_FOUND");
  Write("d/ca.pem", "SECRET");
  EXPECT_EQ(Server(options), "KUBE_BAD_CERTIFICATE");
  Write("d/ca.pem", pair_.certificate_pem);
  const auto config = LoadClientConfig(environment_, options);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->ca_pem, pair_.certificate_pem);
}

TEST_F(LoadClientConfigTest, APodHasItsServiceAccount) {
  EXPECT_EQ(status::Reason(InClusterConfig(environment_).status()), "KUBE_NOT_IN_CLUSTER");
  MakePod();
  const auto config = InClusterConfig(environment_);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->namespace_name, "ns-of-pod");
  EXPECT_EQ(config->ca_pem, pair_.certificate_pem);
  const SimulatedClock clock;
  const auto source = MakeCredentialSource(*config, environment_, &clock);
  EXPECT_TRUE(absl::EndsWith(std::get<GivenCredential>(config->credential).token.path, "/token"));
  environment_.variables["KUBERNETES_SERVICE_PORT"] = "1/@x";
  EXPECT_EQ(status::Reason(InClusterConfig(environment_).status()), "KUBE_BAD_CONFIG");
  environment_.variables["KUBERNETES_SERVICE_PORT"] = "443";
  Write("root/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", "");
  EXPECT_EQ(status::Reason(InClusterConfig(environment_).status()), "KUBE_BAD_CERTIFICATE");
}

}  // namespace
}  // namespace capstan::kube
