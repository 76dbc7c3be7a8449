// If these fail, a kubeconfig that works with kubectl means another cluster or identity here, or an
// error shows a secret.
#include "libs/kube/config/kubeconfig.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/kube/config/client_config.h"
#include "libs/kube/config/testing/key_pair.h"
#include "libs/random/random.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

absl::StatusOr<KubeconfigChoice> Choose(const std::vector<std::string>& texts,
                                        const KubeconfigOverrides& overrides = {}) {
  std::vector<KubeconfigFile> files;
  for (const std::string& text : texts) {
    files.push_back({absl::StrCat("/f", files.size(), "/config"), text});
  }
  const absl::StatusOr<Kubeconfig> merged = Kubeconfig::Merge(files);
  if (!merged.ok()) return merged.status();
  return merged->Choose(overrides);
}

std::string File(absl::string_view cluster, absl::string_view user) {
  return absl::StrCat("current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n",
                      "clusters: [{name: k, cluster: {", cluster, "}}]\nusers: [{name: u, user: {",
                      user, "}}]\n");
}

constexpr char kServer[] = "server: 'https://k'";

TEST(KubeconfigTest, FirstFileGivesAllOfAnEntryAndTheFirstContextSetCounts) {
  const std::string first =
      "clusters: [{name: red, cluster: {server: 'https://a', certificate-authority: ca/a.pem}}]\n"
      "users: [{name: u, user: {token: aaa}}]\n";
  const std::string second =
      "apiVersion: v1\nkind: Config\nunknown: {x: 1}\n"
      "clusters:\n- {name: red, cluster: {server: 'https://b', tls-server-name: bb}}\n"
      "- {name: blue, cluster: {server: 'https://blue'}}\n"
      "users: [{name: u, user: {token: bbb, as: x}}]\n"
      "contexts: [{name: c, context: {cluster: red, user: u, namespace: ns1}}]\n"
      "current-context: c\n";
  const auto choice = Choose({"", first, second, "current-context: other\n"});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->config.server, "https://a");
  EXPECT_EQ(choice->config.tls_server_name, "");
  EXPECT_EQ(choice->ca_path, "/f1/ca/a.pem");
  EXPECT_EQ(choice->config.namespace_name, "ns1");
  EXPECT_EQ(choice->config.impersonation, Impersonation());
  EXPECT_EQ(std::get<GivenCredential>(choice->config.credential).token.text, "aaa");

  KubeconfigOverrides overrides;
  overrides.cluster = "blue";
  overrides.namespace_name = "n2";
  const auto overridden = Choose({first, second}, overrides);
  ASSERT_TRUE(overridden.ok()) << overridden.status();
  EXPECT_EQ(overridden->config.server, "https://blue");
  EXPECT_EQ(overridden->config.namespace_name, "n2");
}

TEST(KubeconfigTest, ReadsEverythingOfClusterAndUser) {
  const KeyPair pair = MakeKeyPair();
  const auto choice = Choose({File(
      absl::StrCat("server: 'https://k:6443/p', tls-server-name: api, disable-compression: true, "
                   "proxy-url: 'socks5://u:SECRET@proxy:1080', certificate-authority-data: ",
                   absl::Base64Escape(pair.certificate_pem)),
      absl::StrCat("as: ann, as-uid: '7', as-groups: [a, b], as-user-extra: {k: [v, w]}, "
                   "client-certificate: c.pem, client-key: /k.pem, tokenFile: t"))});
  ASSERT_TRUE(choice.ok()) << choice.status();
  const ClientConfig& config = choice->config;
  EXPECT_EQ(config.ca_pem, pair.certificate_pem);
  EXPECT_EQ(config.tls_server_name, "api");
  EXPECT_TRUE(config.disable_compression);
  EXPECT_EQ(config.impersonation, (Impersonation{"ann", "7", {"a", "b"}, {{"k", {"v", "w"}}}}));
  EXPECT_EQ(std::get<GivenCredential>(config.credential),
            (GivenCredential{{"", "/f0/t"}, {"", "/f0/c.pem"}, {"", "/k.pem"}}));
  EXPECT_EQ(config.namespace_name, "default");
  EXPECT_FALSE(absl::StrContains(ToString(config), "SECRET")) << ToString(config);
  EXPECT_TRUE(absl::StrContains(ToString(config), "socks5://proxy:1080")) << ToString(config);
}

TEST(KubeconfigTest, ReadsExecPlugin) {
  const auto choice = Choose({File(
      "server: 'https://k', extensions: [{name: client.authentication.k8s.io/exec, extension: "
      "{n: 1, t: true, s: 'x', l: [null, 1e3, 01]}}]",
      "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: bin/p, args: [-x, "
      "SECRETarg], env: [{name: A, value: SECRETenv}], installHint: \"get\\n\\e[31mit\", "
      "provideClusterInfo: true}")});
  ASSERT_TRUE(choice.ok()) << choice.status();
  const ExecPlugin& plugin = std::get<ExecPlugin>(choice->config.credential);
  EXPECT_EQ(plugin.command, "/f0/bin/p");
  EXPECT_EQ(plugin.args, (std::vector<std::string>{"-x", "SECRETarg"}));
  EXPECT_EQ(plugin.env, (std::vector<std::pair<std::string, std::string>>{{"A", "SECRETenv"}}));
  EXPECT_EQ(plugin.install_hint, "get [31mit");
  EXPECT_EQ(plugin.cluster_config_json, R"({"n":1,"t":true,"s":"x","l":[null,1e3,"01"]})");
  EXPECT_FALSE(absl::StrContains(ToString(choice->config), "SECRET"));
}

struct Wrong {
  std::string cluster;
  std::string user;
  std::string field;
};

TEST(KubeconfigTest, NamesEachWrongFieldAndNoSecret) {
  const std::string server = kServer;
  const std::string exec = "apiVersion: client.authentication.k8s.io/v1, ";
  const std::string pem = absl::Base64Escape("SECRET");
  const std::vector<Wrong> table = {
      {"", "", "clusters[0].cluster.server"},
      {"server: 'k:6443'", "", "clusters[0].cluster.server"},
      {"server: 'https://u:SECRET@k'", "", "clusters[0].cluster.server"},
      {"server: [x]", "", "clusters[0].cluster.server"},
      {"server: 'http://k'", "token: SECRET", "clusters[0].cluster.server"},
      {server + ", proxy-url: 'ftp://u:SECRET@p'", "", "clusters[0].cluster.proxy-url"},
      {server + ", insecure-skip-tls-verify: 'true'", "",
       "clusters[0].cluster.insecure-skip-tls-verify"},
      {server + ", insecure-skip-tls-verify: true, certificate-authority: x", "",
       "clusters[0].cluster.insecure-skip-tls-verify"},
      {server + ", certificate-authority-data: '%SECRET'", "",
       "clusters[0].cluster.certificate-authority-data"},
      {server + ", certificate-authority-data: " + pem, "",
       "clusters[0].cluster.certificate-authority-data"},
      {server, "token: 'SECRET x'", "users[0].user.token"},
      {server, "username: SECRET", "users[0].user.username"},
      {server, "password: SECRET", "users[0].user.password"},
      {server, "auth-provider: {name: gcp}", "users[0].user.auth-provider"},
      {server, "as-groups: [x]", "users[0].user.as"},
      {server, "as: a, as-groups: x", "users[0].user.as-groups"},
      {server, "client-certificate: x", "users[0].user.client-key"},
      {server, "client-key: x", "users[0].user.client-certificate"},
      {server, "client-certificate: x, client-certificate-data: " + pem + ", client-key: y",
       "users[0].user.client-certificate"},
      {server, "client-certificate-data: " + pem + ", client-key-data: " + pem,
       "users[0].user.client-certificate-data"},
      {server, "exec: {" + exec + "interactiveMode: Never}", "users[0].user.exec.command"},
      {server, "exec: {" + exec + "command: x}", "users[0].user.exec.interactiveMode"},
      {server, "exec: {" + exec + "command: x, interactiveMode: Always}",
       "users[0].user.exec.interactiveMode"},
      {server, "exec: {apiVersion: v1alpha1, command: x, interactiveMode: Never}",
       "users[0].user.exec.apiVersion"},
      {server, "exec: {" + exec + "command: x, interactiveMode: Never, env: [{value: SECRET}]}",
       "users[0].user.exec.env[0].name"},
      {server, "exec: {" + exec + "command: x, interactiveMode: Never, args: [\"a\\0\"]}",
       "users[0].user.exec.args[0]"},
      {server, "exec: x", "users[0].user.exec"},
  };
  for (const Wrong& wrong : table) {
    const auto choice = Choose({File(wrong.cluster, wrong.user)});
    ASSERT_FALSE(choice.ok()) << wrong.cluster << wrong.user;
    EXPECT_EQ(status::Reason(choice.status()), "KUBE_BAD_CONFIG");
    const auto violations = status::GetFieldViolations(choice.status());
    ASSERT_EQ(violations.size(), 1u) << choice.status();
    EXPECT_EQ(violations[0].field, wrong.field) << choice.status();
    EXPECT_TRUE(absl::StartsWith(choice.status().message(), "/f0/config:")) << choice.status();
    EXPECT_FALSE(absl::StrContains(choice.status().ToString(), "SECRET")) << choice.status();
  }
}

TEST(KubeconfigTest, RefusesFilesThatMeanNothingCertain) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"kind: Pod", "kind"},        {"apiVersion: v2", "apiVersion"},
      {"clusters: {}", "clusters"}, {"users: [{name: x}, {name: x}]", "users[1].name"},
      {"users: [x]", "users[0]"},   {"[]", ""},
      {"a: *SECRET", ""},           {"{SECRET: 1, SECRET: 2}", ""},
      {"a: 'SECRET", ""},
  };
  for (const auto& [text, field] : table) {
    const auto merged = Kubeconfig::Merge({{"/f", text}});
    ASSERT_FALSE(merged.ok()) << text;
    EXPECT_TRUE(absl::StartsWith(merged.status().message(), "/f:")) << merged.status();
    EXPECT_FALSE(absl::StrContains(merged.status().ToString(), "SECRET")) << merged.status();
    const auto violations = status::GetFieldViolations(merged.status());
    EXPECT_EQ(violations.empty() ? "" : violations[0].field, field) << merged.status();
  }
}

TEST(KubeconfigTest, WhatIsNamedMustBeThere) {
  const std::string file = File(kServer, "");
  for (const KubeconfigOverrides& overrides :
       {KubeconfigOverrides{"gone", "", "", ""}, KubeconfigOverrides{"", "gone", "", ""},
        KubeconfigOverrides{"", "", "gone", ""}}) {
    const auto choice = Choose({file}, overrides);
    EXPECT_EQ(status::Reason(choice.status()), "KUBE_NOT_IN_CONFIG") << choice.status();
  }
  EXPECT_EQ(status::Reason(Choose({"current-context: c"}).status()), "KUBE_NOT_IN_CONFIG");
  EXPECT_EQ(status::Reason(Choose({""}).status()), "KUBE_NO_CONTEXT");
  EXPECT_FALSE(Choose({file}, {"", "", "", "../x"}).ok());
}

TEST(KubeconfigTest, GivenCredentialComesBeforeThePlugin) {
  const auto choice =
      Choose({File(kServer,
                   "token: t, exec: {apiVersion: client.authentication.k8s.io/v1, command: x, "
                   "interactiveMode: IfAvailable}")});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_TRUE(std::holds_alternative<GivenCredential>(choice->config.credential));
  EXPECT_EQ(choice->config.warnings.size(), 1u);
}

TEST(KubeconfigTest, RandomFilesNeverCrash) {
  const std::vector<std::string> words = {"clusters",   "users",   "contexts", "current-context",
                                          "name",       "cluster", "user",     "context",
                                          "server",     "token",   "exec",     "'https://k'",
                                          ": ",         "\n- ",    "\n  ",     "{",
                                          "}",          "[",       "]",        ", ",
                                          "c",          "null",    "\"\\",     "|\n",
                                          "extensions", "command"};
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> texts(1 + random.Below(3));
    for (std::string& text : texts) {
      text = File(kServer, "token: t");
      for (uint64_t edits = random.Below(4); edits > 0; --edits) {
        text.insert(random.Below(text.size()), words[random.Below(words.size())]);
      }
      if (random.OneIn(4)) text.resize(random.Below(text.size()));
    }
    const auto choice = Choose(texts);
    if (choice.ok()) {
      EXPECT_FALSE(choice->config.server.empty());
    } else {
      EXPECT_NE(status::Reason(choice.status()), "");
    }
  }
}

}  // namespace
}  // namespace capstan::kube
