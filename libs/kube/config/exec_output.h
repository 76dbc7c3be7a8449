// What credential plugins are told and what they answer (client.authentication.k8s.io). Pure.
#ifndef CAPSTAN_LIBS_KUBE_CONFIG_EXEC_OUTPUT_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_EXEC_OUTPUT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/kube/config/client_config.h"
#include "libs/kube/config/credential_cache.h"

namespace capstan::kube {

// KUBERNETES_EXEC_INFO: an ExecCredential, JSON, that says that there is no terminal and, if the
// plugin is to know, which cluster it is for.
std::string ExecRequest(const ExecPlugin& plugin, const ClientConfig& config);

// Reads an ExecCredential of `api_version`, JSON or YAML, at most 1 MiB; other fields than those of
// the standard are not looked at. INVALID_ARGUMENT, reason KUBE_PLUGIN_BAD_OUTPUT, with each wrong
// field's path and no word of the output: another kind or version, neither token nor certificate, a
// token or pair that cannot be used, or one that has expired by `now`.
absl::StatusOr<FetchedCredential> ParseExecOutput(absl::string_view output,
                                                  absl::string_view api_version, absl::Time now);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_EXEC_OUTPUT_H_
