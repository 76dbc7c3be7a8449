#include "libs/kube/config/exec_output.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "libs/config/document.h"
#include "libs/kube/config/credential_check.h"
#include "libs/kube/config/document_fields.h"
#include "libs/kube/config/document_json.h"

namespace capstan::kube {
namespace {

// For findings, in place of a file's name.
constexpr char kOutput[] = "the plugin's output";

std::string ClusterJson(const ExecPlugin& plugin, const ClientConfig& config) {
  std::string out = absl::StrCat("{\"server\":", JsonQuote(config.server));
  if (!config.tls_server_name.empty()) {
    absl::StrAppend(&out, ",\"tls-server-name\":", JsonQuote(config.tls_server_name));
  }
  if (config.insecure_skip_tls_verify) absl::StrAppend(&out, ",\"insecure-skip-tls-verify\":true");
  if (!config.ca_pem.empty()) {
    absl::StrAppend(&out, ",\"certificate-authority-data\":\"", absl::Base64Escape(config.ca_pem),
                    "\"");
  }
  if (!config.proxy_url.empty()) {
    absl::StrAppend(&out, ",\"proxy-url\":", JsonQuote(config.proxy_url));
  }
  if (config.disable_compression) absl::StrAppend(&out, ",\"disable-compression\":true");
  if (!plugin.cluster_config_json.empty()) {
    absl::StrAppend(&out, ",\"config\":", plugin.cluster_config_json);
  }
  return out + "}";
}

}  // namespace

std::string ExecRequest(const ExecPlugin& plugin, const ClientConfig& config) {
  return absl::StrCat(
      "{\"kind\":\"ExecCredential\",\"apiVersion\":", JsonQuote(plugin.api_version), ",\"spec\":{",
      plugin.provide_cluster ? absl::StrCat("\"cluster\":", ClusterJson(plugin, config), ",") : "",
      "\"interactive\":false}}");
}

absl::StatusOr<FetchedCredential> ParseExecOutput(absl::string_view output,
                                                  absl::string_view api_version, absl::Time now) {
  Findings findings;
  FetchedCredential fetched;
  const absl::optional<config::Document> document = ParseText(output, kOutput, &findings);
  if (document.has_value()) {
    const DocumentFields root(&*document, kOutput, "", &findings);
    if (root.Text("kind") != "ExecCredential") root.Wrong("kind", "expected ExecCredential");
    if (root.Text("apiVersion") != api_version) {
      root.Wrong("apiVersion",
                 absl::StrCat("expected ", api_version, ", as the kubeconfig says of the plugin"));
    }
    const DocumentFields status = root.Mapping("status");
    Credential& credential = fetched.credential;
    credential.bearer_token = status.Text("token");
    credential.certificate_chain_pem = status.Text("clientCertificateData");
    credential.private_key_pem = status.Text("clientKeyData");
    const bool certificate = !credential.certificate_chain_pem.empty();
    if (!credential.bearer_token.empty()) {
      const absl::Status sound = CheckToken(credential.bearer_token);
      if (!sound.ok()) status.Wrong("token", sound.message());
    } else if (!certificate && credential.private_key_pem.empty()) {
      root.Wrong("status", "holds neither a token nor a client certificate");
    }
    if (certificate != !credential.private_key_pem.empty()) {
      status.Wrong(certificate ? "clientKeyData" : "clientCertificateData",
                   "is missing; a certificate and its key come together");
    } else if (certificate) {
      const absl::Status sound =
          CheckKeyPair(credential.certificate_chain_pem, credential.private_key_pem);
      if (!sound.ok()) status.Wrong("clientCertificateData", sound.message());
    }
    const std::string expires = status.Text("expirationTimestamp");
    std::string error;
    if (!expires.empty()) {
      if (!absl::ParseTime(absl::RFC3339_full, expires, &fetched.expires, &error)) {
        status.Wrong("expirationTimestamp", "expected a time like 2030-01-02T15:04:05Z");
      } else if (fetched.expires <= now) {
        status.Wrong("expirationTimestamp",
                     absl::StrCat("is in the past; by this machine's clock it is ",
                                  absl::FormatTime(absl::RFC3339_sec, now, absl::UTCTimeZone())));
      }
    }
  }
  if (!findings.ok()) return findings.ToStatus("KUBE_PLUGIN_BAD_OUTPUT");
  return fetched;
}

}  // namespace capstan::kube
