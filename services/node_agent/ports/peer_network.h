#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_PEER_NETWORK_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_PEER_NETWORK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/capstan/dataloader/v1/content.pb.h"
#include "proto/capstan/dataloader/v1/peer.pb.h"

namespace capstan::node_agent {

// The other Nodes that have content, and data_loader that knows of them. Calls block and are made
// on threads that may; thread-safe.
class PeerNetwork {
 public:
  virtual ~PeerNetwork() = default;

  virtual absl::StatusOr<capstan::dataloader::v1::FindPeersResponse> FindPeers(
      const capstan::dataloader::v1::FindPeersRequest& request) = 0;
  // Digests of the chunks [first, first + count), as many of them as there are.
  virtual absl::StatusOr<std::vector<std::string>> ReadChunkDigests(
      const capstan::dataloader::v1::ContentRef& content, int64_t first, int count) = 0;
  // As LoaderContent::Read, from a peer; what comes is not checked. Ends with UNAVAILABLE
  // (PEER_STALLED) if nothing at all is heard of the peer for a while.
  virtual absl::Status Read(const capstan::dataloader::v1::Peer& peer,
                            const capstan::dataloader::v1::ContentRef& content, int64_t offset,
                            int64_t length,
                            absl::FunctionRef<absl::Status(absl::string_view)> sink) = 0;
  // Ends calls under way, and all later ones, with CANCELLED. For the end of the agent.
  virtual void Stop() = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_PEER_NETWORK_H_
