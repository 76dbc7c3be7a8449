#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_PEER_GRPC_NETWORK_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_PEER_GRPC_NETWORK_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "libs/metrics/registry.h"
#include "libs/strand/strand.h"
#include "services/node_agent/ports/peer_network.h"

namespace capstan::node_agent {

// A channel to a Node's peer server, which must have the SVID of that path in the own trust domain
// (`/node/<cluster>/<node>`).
using PeerDialer = std::function<std::shared_ptr<grpc::Channel>(const std::string& address,
                                                                const std::string& identity_path)>;

struct PeerGrpcOptions {
  // The Node's own; peers of another one are not dialled.
  std::string cluster;
  // A peer of which nothing is heard for as long is given up.
  absl::Duration patience = absl::Seconds(5);
  // One that only says that it is there, for as long.
  absl::Duration patience_without_bytes = absl::Seconds(15);
};

// PeerService of data_loader and PeerContentService of other Nodes over gRPC. `loader` is the
// channel to data_loader; `strand` is where time is counted, and must outlive it; `registry` may be
// null.
std::unique_ptr<PeerNetwork> MakePeerGrpcNetwork(const std::shared_ptr<grpc::Channel>& loader,
                                                 PeerDialer dial, const PeerGrpcOptions& options,
                                                 Strand* strand, metrics::Registry* registry);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_PEER_GRPC_NETWORK_H_
