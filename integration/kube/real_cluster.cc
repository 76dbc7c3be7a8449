#include "integration/kube/real_cluster.h"

#include <utility>

#include "libs/kube/config/environment.h"
#include "libs/kube/config/load_client_config.h"
#include "libs/kube/config/make_credential_source.h"
#include "libs/kube/connection/connection.h"
#include "libs/kube/transport/make_transport.h"
#include "libs/status/status_macros.h"

namespace capstan::kube::testing {

absl::StatusOr<ClientConfig> AdminConfig(const testenv::KubernetesCluster& cluster) {
  Environment environment;
  environment.variables["KUBECONFIG"] = cluster.kubeconfig();
  return LoadClientConfig(environment, LoadOptions());
}

absl::StatusOr<std::unique_ptr<RealTransport>> MakeTransport(const ClientConfig& config) {
  auto made = std::make_unique<RealTransport>();
  made->credentials = MakeCredentialSource(config, Environment(), &made->clock);
  CAPSTAN_ASSIGN_OR_RETURN(
      made->transport,
      kube::MakeTransport(TransportOptionsOf(config), made->credentials.get(), &made->clock));
  return made;
}

}  // namespace capstan::kube::testing
