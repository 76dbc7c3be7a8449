#include "libs/kube/config/in_cluster.h"

#include <sys/stat.h>

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/kube/config/credential_check.h"
#include "libs/kube/config/namespace_name.h"
#include "libs/kube/config/server_url.h"
#include "libs/kube/config/text_file.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {
namespace {

constexpr char kHost[] = "KUBERNETES_SERVICE_HOST";
constexpr char kPort[] = "KUBERNETES_SERVICE_PORT";

std::string AccountFile(const Environment& environment, absl::string_view name) {
  return absl::StrCat(absl::StripSuffix(environment.root, "/"),
                      "/var/run/secrets/kubernetes.io/serviceaccount/", name);
}

absl::Status Bad(absl::string_view message) {
  return status::Error(absl::StatusCode::kInvalidArgument, "KUBE_BAD_CONFIG", message);
}

}  // namespace

bool IsInCluster(const Environment& environment) {
  struct stat token{};
  return !environment.Variable(kHost).empty() && !environment.Variable(kPort).empty() &&
         stat(AccountFile(environment, "token").c_str(), &token) == 0 && S_ISREG(token.st_mode);
}

absl::StatusOr<ClientConfig> InClusterConfig(const Environment& environment) {
  const std::string token = AccountFile(environment, "token");
  if (!IsInCluster(environment)) {
    return status::Error(absl::StatusCode::kFailedPrecondition, "KUBE_NOT_IN_CLUSTER",
                         absl::StrCat("this is no Pod with a service account: ", kHost, ", ", kPort,
                                      " and ", token, " are not all there"));
  }
  const std::string host = environment.Variable(kHost);
  const std::string port = environment.Variable(kPort);
  ClientConfig config;
  config.origin = "the Pod's service account";
  config.server = absl::StrContains(host, ":") ? absl::StrCat("https://[", host, "]:", port)
                                               : absl::StrCat("https://", host, ":", port);
  const absl::optional<ServerUrl> url = ParseServerUrl(config.server);
  if (!url.has_value() || !url->path.empty()) {
    return Bad(absl::StrCat(kHost, " and ", kPort, " are no host and port"));
  }
  const std::string ca = AccountFile(environment, "ca.crt");
  CAPSTAN_ASSIGN_OR_RETURN(TextFile ca_file, ReadTextFile(ca, /*regular_only=*/true));
  CAPSTAN_RETURN_IF_ERROR(status::Annotate(CheckCertificates(ca_file.text), ca));
  config.ca_pem = std::move(ca_file.text);
  // Where the namespace is projected into the environment, as clients for a Pod agree.
  std::string name_space = environment.Variable("POD_NAMESPACE");
  std::string told_by = "POD_NAMESPACE";
  if (name_space.empty()) {
    told_by = AccountFile(environment, "namespace");
    const absl::StatusOr<TextFile> file = ReadTextFile(told_by, /*regular_only=*/true);
    if (file.ok()) {
      name_space = std::string(absl::StripAsciiWhitespace(file->text));
    } else if (!absl::IsNotFound(file.status())) {
      return file.status();
    }
  }
  if (!name_space.empty()) {
    if (!IsNamespaceName(name_space)) {
      return Bad(absl::StrCat(told_by, ": ", kNamespaceNameExpected));
    }
    config.namespace_name = name_space;
  }
  GivenCredential credential;
  credential.token.path = token;
  config.credential = credential;
  return config;
}

}  // namespace capstan::kube
