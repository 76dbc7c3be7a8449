// What a Kubernetes client has to know of its server, and of what to show it.
#ifndef CAPSTAN_LIBS_KUBE_CONFIG_CLIENT_CONFIG_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_CLIENT_CONFIG_H_

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/kube/transport/impersonation.h"

namespace capstan::kube {

// Text that is in the configuration, or in a file whose content may change; at most one is set. The
// text is secret.
struct Material {
  std::string text;
  // Absolute.
  std::string path;

  bool empty() const { return text.empty() && path.empty(); }
  friend bool operator==(const Material&, const Material&) = default;
};

// No credential: requests are anonymous.
struct NoCredential {
  friend bool operator==(const NoCredential&, const NoCredential&) = default;
};

// A bearer token, a client certificate, or both: the server decides by the certificate then, as it
// does for kubectl. Certificate and key come together. At least one thing is there.
struct GivenCredential {
  Material token;
  Material certificate_chain_pem;
  Material private_key_pem;

  bool in_files() const {
    return !token.path.empty() || !certificate_chain_pem.path.empty() ||
           !private_key_pem.path.empty();
  }
  friend bool operator==(const GivenCredential&, const GivenCredential&) = default;
};

// A program that makes credentials (KEP-541), to be run without a terminal.
struct ExecPlugin {
  // `client.authentication.k8s.io/v1` or `…/v1beta1`.
  std::string api_version;
  // An absolute path, or a name to be looked up in PATH.
  std::string command;
  std::vector<std::string> args;
  // Added to the caller's environment. Values are secret.
  std::vector<std::pair<std::string, std::string>> env;
  // Told to who has no such command; one line, printable.
  std::string install_hint;
  // The plugin is told which cluster it is asked for.
  bool provide_cluster = false;
  // JSON, of the cluster's extension `client.authentication.k8s.io/exec`; empty if it has none.
  std::string cluster_config_json;

  friend bool operator==(const ExecPlugin&, const ExecPlugin&) = default;
};

using CredentialConfig = std::variant<NoCredential, GivenCredential, ExecPlugin>;

// A value. Holds secrets; ToString shows none.
struct ClientConfig {
  // `https://host[:port][/path]`, or `http://…`: then without any credential, and never to be given
  // one. ParseServerUrl reads it.
  std::string server;
  // PEM, one certificate or more. Empty: the machine's own CAs are trusted.
  std::string ca_pem;
  // Empty: the host of `server`.
  std::string tls_server_name;
  // The server's certificate is not to be verified. Only what the file says; whether that is
  // allowed is the caller's decision. Never together with ca_pem.
  bool insecure_skip_tls_verify = false;
  // `http://`, `https://` or `socks5://`, checked; secret, since it may hold a password. Empty: no
  // proxy by the file's will; what the environment says is not looked at.
  std::string proxy_url;
  bool disable_compression = false;
  Impersonation impersonation;
  // Of calls that name none; never empty.
  std::string namespace_name = "default";
  CredentialConfig credential;
  // Where it comes from, for people: `context red of /home/ann/.kube/config`.
  std::string origin;
  // What is doubtful, though it works: a sentence each, nothing secret.
  std::vector<std::string> warnings;

  friend bool operator==(const ClientConfig&, const ClientConfig&) = default;
};

// For people and logs: what it is, one line, nothing secret.
std::string ToString(const CredentialConfig& credential);
std::string ToString(const ClientConfig& config);

// The URL without its user and password.
std::string WithoutUser(absl::string_view url);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_CLIENT_CONFIG_H_
