// A client of a test's own control plane, made as a program makes one: from the kubeconfig.
#ifndef CAPSTAN_INTEGRATION_KUBE_REAL_CLUSTER_H_
#define CAPSTAN_INTEGRATION_KUBE_REAL_CLUSTER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/kube/config/client_config.h"
#include "libs/kube/transport/credential_source.h"
#include "libs/kube/transport/transport.h"
#include "libs/time/system_clock.h"
#include "tools/testenv/kubernetes_cluster.h"

namespace capstan::kube::testing {

// A transport and what it needs; the administrator's unless another credential is given.
struct RealTransport {
  SystemClock clock;
  std::unique_ptr<CredentialSource> credentials;
  std::unique_ptr<Transport> transport;

  ~RealTransport() { transport = nullptr; }
};

// The configuration that kubectl would use with the cluster's kubeconfig.
absl::StatusOr<ClientConfig> AdminConfig(const testenv::KubernetesCluster& cluster);
absl::StatusOr<std::unique_ptr<RealTransport>> MakeTransport(const ClientConfig& config);

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_INTEGRATION_KUBE_REAL_CLUSTER_H_
