#ifndef CAPSTAN_LIBS_KUBE_CONFIG_IN_CLUSTER_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_IN_CLUSTER_H_

#include "absl/status/statusor.h"
#include "libs/kube/config/client_config.h"
#include "libs/kube/config/environment.h"

namespace capstan::kube {

// Whether this is a Pod that has a service account's token: KUBERNETES_SERVICE_HOST and
// KUBERNETES_SERVICE_PORT are set, and the token's file is there.
bool IsInCluster(const Environment& environment);

// How a Pod reaches its own cluster's API server: by the address in its environment, the service
// account's token, which is named as a file since it is renewed there, its CA and its namespace.
// The namespace is `default` if the Pod is told none.
//
// FAILED_PRECONDITION, reason KUBE_NOT_IN_CLUSTER, if IsInCluster is false. INVALID_ARGUMENT,
// reason KUBE_BAD_CONFIG, if host, port, CA or namespace make no sense; unlike client-go it does
// not go on with the machine's CAs when the cluster's cannot be read.
absl::StatusOr<ClientConfig> InClusterConfig(const Environment& environment);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_IN_CLUSTER_H_
