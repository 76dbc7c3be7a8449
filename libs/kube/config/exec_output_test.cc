// If these fail, a plugin's answer is taken that is none, or is shown in an error.
#include "libs/kube/config/exec_output.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "libs/kube/config/client_config.h"
#include "libs/kube/config/testing/key_pair.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

constexpr char kV1[] = "client.authentication.k8s.io/v1";

std::string Output(absl::string_view status) {
  return absl::StrCat(R"({"kind":"ExecCredential","apiVersion":")", kV1, R"(","status":{)", status,
                      "}}");
}

absl::StatusOr<FetchedCredential> Parse(absl::string_view output) {
  return ParseExecOutput(output, kV1,
                         absl::FromCivil(absl::CivilDay(2030, 1, 1), absl::UTCTimeZone()));
}

std::string Escaped(const std::string& pem) { return absl::StrReplaceAll(pem, {{"\n", "\\n"}}); }

TEST(ExecOutputTest, TakesTokensAndCertificates) {
  const KeyPair pair = MakeKeyPair();
  const auto both = Parse(Output(absl::StrCat(
      R"("token":"t","expirationTimestamp":"2030-01-01T00:00:01Z","clientCertificateData":")",
      Escaped(pair.certificate_pem), R"(","clientKeyData":")", Escaped(pair.key_pem), "\"")));
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->credential, (Credential{"t", pair.certificate_pem, pair.key_pem}));
  EXPECT_EQ(both->expires,
            absl::FromCivil(absl::CivilSecond(2030, 1, 1, 0, 0, 1), absl::UTCTimeZone()));
  const auto token = Parse(Output("\n\t\"token\": \"t\""));
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->expires, absl::InfiniteFuture());
}

TEST(ExecOutputTest, NamesWhatIsWrongWithoutTheOutput) {
  const KeyPair pair = MakeKeyPair();
  const std::string other = Escaped(MakeKeyPair().key_pem);
  const std::vector<std::pair<std::string, std::string>> table = {
      {"", "kind"},
      {"SECRET", ""},
      {"{\"a\": *SECRET}", ""},
      {Output(""), "status"},
      {absl::StrReplaceAll(Output(R"("token":"SECRET")"), {{"ExecCredential", "SECRET"}}), "kind"},
      {absl::StrReplaceAll(Output(R"("token":"SECRET")"), {{"/v1", "/SECRET"}}), "apiVersion"},
      {Output(R"("token":"SECRET\n")"), "status.token"},
      {Output(R"("token":["SECRET"])"), "status.token"},
      {Output(R"("token":"SECRET","expirationTimestamp":"SECRET")"), "status.expirationTimestamp"},
      {Output(R"("token":"SECRET","expirationTimestamp":"2030-01-01T00:00:00Z")"),
       "status.expirationTimestamp"},
      {Output(R"("clientCertificateData":"SECRET")"), "status.clientKeyData"},
      {Output(R"("clientKeyData":"SECRET")"), "status.clientCertificateData"},
      {Output(absl::StrCat(R"("clientCertificateData":")", Escaped(pair.certificate_pem),
                           R"(","clientKeyData":")", other, "\"")),
       "status.clientCertificateData"},
  };
  for (const auto& [output, field] : table) {
    const auto fetched = Parse(output);
    ASSERT_FALSE(fetched.ok()) << output;
    EXPECT_EQ(status::Reason(fetched.status()), "KUBE_PLUGIN_BAD_OUTPUT");
    const auto violations = status::GetFieldViolations(fetched.status());
    EXPECT_EQ(violations.empty() ? "" : violations[0].field, field) << fetched.status();
    EXPECT_FALSE(absl::StrContains(fetched.status().ToString(), "SECRET")) << fetched.status();
  }
}

TEST(ExecOutputTest, TellsThePluginItsClusterOnlyIfItIsToKnow) {
  ClientConfig config;
  config.server = "https://k";
  config.ca_pem = "ca";
  config.insecure_skip_tls_verify = true;
  config.tls_server_name = "a\"b";
  ExecPlugin plugin;
  plugin.api_version = kV1;
  const std::string head = absl::StrCat(R"({"kind":"ExecCredential","apiVersion":")", kV1, "\",");
  EXPECT_EQ(ExecRequest(plugin, config), head + R"("spec":{"interactive":false}})");
  plugin.provide_cluster = true;
  plugin.cluster_config_json = R"({"a":1})";
  EXPECT_EQ(ExecRequest(plugin, config),
            head + R"("spec":{"cluster":{"server":"https://k","tls-server-name":"a\"b",)"
                   R"("insecure-skip-tls-verify":true,"certificate-authority-data":"Y2E=",)"
                   R"("config":{"a":1}},"interactive":false}})");
}

}  // namespace
}  // namespace capstan::kube
