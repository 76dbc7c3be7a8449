#ifndef CAPSTAN_LIBS_KUBE_CONFIG_LOAD_CLIENT_CONFIG_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_LOAD_CLIENT_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"
#include "libs/kube/config/client_config.h"
#include "libs/kube/config/environment.h"
#include "libs/kube/config/kubeconfig.h"

namespace capstan::kube {

struct LoadOptions {
  // A kubeconfig's path; empty: none is named.
  std::string explicit_path;
  KubeconfigOverrides overrides;
};

// Finds the configuration as kubectl does, reading files, so it blocks:
// 1. `explicit_path` alone, which must be there and choose a context;
// 2. else the files of KUBECONFIG, `:` between them, merged; those that are missing are warnings;
// 3. else `<home>/.kube/config`;
// 4. if these choose no context and none is named by `overrides`: the Pod's service account.
// The CA is read now and not again; credentials are named, not read. Warnings also name kubeconfig
// and key files that others than their owner may use.
//
// NOT_FOUND, reason KUBE_NO_CONFIG, if there is nothing; else as Kubeconfig, InClusterConfig and
// the file system say.
absl::StatusOr<ClientConfig> LoadClientConfig(const Environment& environment,
                                              const LoadOptions& options);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_LOAD_CLIENT_CONFIG_H_
