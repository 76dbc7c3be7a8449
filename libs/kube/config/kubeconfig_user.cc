#include "libs/kube/config/kubeconfig_user.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/kube/config/credential_check.h"
#include "libs/kube/config/printable.h"

namespace capstan::kube {
namespace {

Impersonation ReadImpersonation(const DocumentFields& user) {
  Impersonation impersonation;
  impersonation.user = user.Text("as");
  impersonation.uid = user.Text("as-uid");
  impersonation.groups = user.Texts("as-groups");
  const DocumentFields extra = user.Mapping("as-user-extra");
  for (const std::string& key : extra.Keys()) {
    impersonation.extra.emplace_back(key, extra.Texts(key));
  }
  if (impersonation.user.empty() && !(impersonation == Impersonation())) {
    user.Wrong("as", "is missing; as-uid, as-groups and as-user-extra need it");
  }
  return impersonation;
}

absl::optional<ExecPlugin> ReadExec(const DocumentFields& user) {
  const DocumentFields exec = user.Mapping("exec");
  if (exec.document() == nullptr) return absl::nullopt;
  ExecPlugin plugin;
  plugin.api_version = exec.Text("apiVersion");
  const bool v1 = plugin.api_version == "client.authentication.k8s.io/v1";
  if (!v1 && plugin.api_version != "client.authentication.k8s.io/v1beta1") {
    exec.Wrong("apiVersion",
               "expected client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1");
  }
  plugin.command = exec.Text("command");
  if (plugin.command.empty()) exec.Wrong("command", "is missing; it is the program to run");
  // A bare name is looked up in PATH.
  if (absl::StrContains(plugin.command, "/")) {
    plugin.command = ResolvePath(exec.file(), plugin.command);
  }
  plugin.args = exec.Texts("args");
  for (const DocumentFields& variable : exec.Mappings("env")) {
    std::string name = variable.Text("name");
    if (name.empty() || absl::StrContains(name, "=")) {
      variable.Wrong("name", "expected the name of a variable, without `=`");
    }
    plugin.env.emplace_back(std::move(name), variable.Text("value"));
  }
  plugin.install_hint = Printable(exec.Text("installHint"));
  plugin.provide_cluster = exec.Flag("provideClusterInfo");
  const std::string mode = exec.Text("interactiveMode");
  if (mode == "Always") {
    exec.Wrong("interactiveMode",
               "is Always: the plugin needs a terminal, which there is none of here; use a plugin, "
               "or arguments of it, that can do without");
  } else if (mode.empty() ? v1 : mode != "Never" && mode != "IfAvailable") {
    exec.Wrong("interactiveMode", "expected Never or IfAvailable");
  }
  return plugin;
}

Material Either(const DocumentFields& user, absl::string_view file_key, absl::string_view data_key,
                std::string data) {
  Material material;
  material.text = std::move(data);
  material.path = ResolvePath(user.file(), user.Text(file_key));
  if (!material.text.empty() && !material.path.empty()) {
    user.Wrong(file_key, absl::StrCat("is given together with ", data_key, "; leave one out"));
  }
  return material;
}

GivenCredential ReadGiven(const DocumentFields& user, std::vector<std::string>* warnings) {
  GivenCredential given;
  given.token.text = user.Text("token");
  given.token.path = ResolvePath(user.file(), user.Text("tokenFile"));
  if (!given.token.text.empty()) {
    const absl::Status sound = CheckToken(given.token.text);
    if (!sound.ok()) user.Wrong("token", sound.message());
  }
  if (!given.token.text.empty() && !given.token.path.empty()) {
    warnings->push_back(absl::StrCat(user.file(), ": ", user.Path("token"),
                                     " is not used, since tokenFile is given too."));
    given.token.text.clear();
  }
  given.certificate_chain_pem = Either(user, "client-certificate", "client-certificate-data",
                                       user.Bytes("client-certificate-data"));
  given.private_key_pem =
      Either(user, "client-key", "client-key-data", user.Bytes("client-key-data"));
  const Material& chain = given.certificate_chain_pem;
  const Material& key = given.private_key_pem;
  if (!chain.empty() && key.empty()) {
    user.Wrong("client-key",
               "is missing; a client certificate needs client-key or client-key-data");
  } else if (chain.empty() && !key.empty()) {
    user.Wrong("client-certificate",
               "is missing; a key needs client-certificate or client-certificate-data");
  } else if (!chain.text.empty() && !key.text.empty()) {
    const absl::Status sound = CheckKeyPair(chain.text, key.text);
    if (!sound.ok()) user.Wrong("client-certificate-data", sound.message());
  }
  return given;
}

}  // namespace

std::string ResolvePath(absl::string_view file, absl::string_view path) {
  if (path.empty() || absl::StartsWith(path, "/")) return std::string(path);
  return absl::StrCat(file.substr(0, file.rfind('/') + 1), path);
}

void ReadUser(const DocumentFields& user, ClientConfig* config) {
  if (user.Has("auth-provider")) {
    user.Wrong("auth-provider",
               "was dropped from Kubernetes clients in 1.26; use an exec plugin, for instance "
               "gke-gcloud-auth-plugin or kubelogin");
  }
  for (const absl::string_view key : {"username", "password"}) {
    if (user.Text(key).empty()) continue;
    user.Wrong(key,
               "is of basic authentication, which API servers dropped in 1.19; use a token, a "
               "client certificate or an exec plugin");
  }
  config->impersonation = ReadImpersonation(user);
  GivenCredential given = ReadGiven(user, &config->warnings);
  absl::optional<ExecPlugin> plugin = ReadExec(user);
  if (!(given == GivenCredential())) {
    if (plugin.has_value()) {
      config->warnings.push_back(absl::StrCat(
          user.file(), ": ", user.Path("exec"),
          " is not run, since a token or a client certificate is given, which comes before it."));
    }
    config->credential = std::move(given);
  } else if (plugin.has_value()) {
    config->credential = *std::move(plugin);
  }
}

}  // namespace capstan::kube
