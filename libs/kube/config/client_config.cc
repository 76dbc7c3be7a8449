#include "libs/kube/config/client_config.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace capstan::kube {
namespace {

std::string Show(absl::string_view name, const Material& material) {
  if (material.empty()) return "";
  if (material.path.empty()) return absl::StrCat(" ", name, " (inline)");
  return absl::StrCat(" ", name, " (", absl::CHexEscape(material.path), ")");
}

struct Describe {
  std::string operator()(const NoCredential&) const { return "none"; }
  std::string operator()(const GivenCredential& given) const {
    return absl::StrCat("given:", Show("token", given.token),
                        Show("certificate", given.certificate_chain_pem),
                        Show("key", given.private_key_pem));
  }
  std::string operator()(const ExecPlugin& plugin) const {
    // Arguments may hold a secret too.
    return absl::StrCat("plugin: ", absl::CHexEscape(plugin.command), " with ", plugin.args.size(),
                        " arguments, ", plugin.api_version);
  }
};

}  // namespace

std::string WithoutUser(absl::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme == absl::string_view::npos) return std::string(url);
  const size_t host = scheme + 3;
  // The last `@`: whoever reads passwords leniently finds no rest of one.
  const size_t at = url.rfind('@');
  if (at == absl::string_view::npos || at < host) return std::string(url);
  return absl::StrCat(url.substr(0, host), url.substr(at + 1));
}

std::string ToString(const CredentialConfig& credential) {
  return std::visit(Describe(), credential);
}

std::string ToString(const ClientConfig& config) {
  std::string out = absl::StrCat(
      config.server, " (", config.origin, "): ",
      config.insecure_skip_tls_verify
          ? "server NOT verified"
          : (config.ca_pem.empty() ? "verified by the machine's CAs" : "verified by its own CA"));
  if (!config.tls_server_name.empty()) absl::StrAppend(&out, " as ", config.tls_server_name);
  if (!config.proxy_url.empty()) {
    absl::StrAppend(&out, ", by proxy ", WithoutUser(config.proxy_url));
  }
  if (config.disable_compression) absl::StrAppend(&out, ", uncompressed");
  if (!config.impersonation.user.empty()) {
    absl::StrAppend(&out, ", acting as ", absl::CHexEscape(config.impersonation.user));
  }
  return absl::StrCat(out, ", namespace ", config.namespace_name, ", credential ",
                      ToString(config.credential));
}

}  // namespace capstan::kube
