#ifndef CAPSTAN_SERVICES_NODE_AGENT_PEER_SERVER_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PEER_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/security/server_credentials.h"
#include "libs/auth/access.h"
#include "libs/metrics/registry.h"
#include "libs/rpc/server.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/clock.h"
#include "services/node_agent/api/peer_content_service.h"
#include "services/node_agent/held_copies.h"
#include "services/node_agent/ports/reader_check.h"

namespace capstan::node_agent {

struct PeerServerConfig {
  // `host:port`.
  std::string address;
  std::shared_ptr<grpc::ServerCredentials> credentials;
  absl::Duration max_connection_age = absl::Hours(12);
  // Threads that read content.
  int threads = 2;
  PeerContentOptions content;
};

// The port at which other Nodes of the Cluster fetch what this one's cache holds: data and nothing
// else (docs/adr/0007).
class PeerServer {
 public:
  // All pointers must outlive it; `registry` may be null.
  static absl::StatusOr<std::unique_ptr<PeerServer>> Start(const PeerServerConfig& config,
                                                           auth::Access* access,
                                                           const HeldCopies* copies,
                                                           ReaderCheck* check, const Clock* clock,
                                                           metrics::Registry* registry);
  // As Drain(0).
  ~PeerServer();

  int port() const { return server_->port(); }
  int uploads() const { return service_->uploads(); }
  // Refuses new reads and ends those under way, whose readers go on with another peer.
  void Drain(absl::Duration grace);

 private:
  PeerServer() = default;

  std::vector<std::unique_ptr<ThreadStrand>> disks_;
  std::unique_ptr<PeerContentService> service_;
  std::unique_ptr<rpc::Server> server_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PEER_SERVER_H_
