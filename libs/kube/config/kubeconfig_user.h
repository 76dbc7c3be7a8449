#ifndef CAPSTAN_LIBS_KUBE_CONFIG_KUBECONFIG_USER_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_KUBECONFIG_USER_H_

#include <string>

#include "absl/strings/string_view.h"
#include "libs/kube/config/client_config.h"
#include "libs/kube/config/document_fields.h"

namespace capstan::kube {

// `path` as written in `file`, whose folder a relative one begins at; empty stays empty.
std::string ResolvePath(absl::string_view file, absl::string_view path);

// Reads `users[].user` of a kubeconfig: credential, impersonation and warnings. What is wrong, also
// what no API server takes any more, becomes a finding.
void ReadUser(const DocumentFields& user, ClientConfig* config);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_KUBECONFIG_USER_H_
