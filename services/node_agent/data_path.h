#ifndef CAPSTAN_SERVICES_NODE_AGENT_DATA_PATH_H_
#define CAPSTAN_SERVICES_NODE_AGENT_DATA_PATH_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/security/server_credentials.h"
#include "libs/auth/access.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/strand/strand.h"
#include "services/node_agent/adapters/grant_book.h"
#include "services/node_agent/adapters/node_cache.h"
#include "services/node_agent/adapters/peer_grpc_network.h"
#include "services/node_agent/api/peer_content_service.h"
#include "services/node_agent/copy_announcer.h"
#include "services/node_agent/held_copies.h"
#include "services/node_agent/peer_server.h"
#include "services/node_agent/ports/loader_content.h"
#include "services/node_agent/ports/peer_network.h"
#include "services/node_agent/ports/reader_check.h"

namespace capstan::node_agent {

struct DataPathConfig {
  std::string cluster;
  NodeCacheOptions cache;
  // `host:port` at which other Nodes of the Cluster fetch what the cache holds; empty: nothing is
  // given to others or taken from them.
  std::string peer_address;
  // Its cluster is the one above.
  PeerContentOptions serving;
};

// All must outlive it.
struct DataPathDeps {
  Strand* strand = nullptr;
  const log::Logger* logger = nullptr;
  // May be null.
  metrics::Registry* registry = nullptr;
  std::shared_ptr<grpc::Channel> data_loader;
  // What is shown with what Tasks have written; may be null.
  const GrantBook* grants = nullptr;
  // The rest is needed with peers alone: who may call, as whom they see this Node, and how they are
  // reached.
  auth::Access* access = nullptr;
  std::shared_ptr<grpc::ServerCredentials> peer_credentials;
  absl::Duration max_connection_age = absl::Hours(12);
  PeerDialer dial_peer;
  // Of back-off and ids.
  uint64_t seed = 0;
};

// The cache of a Node that does not share the Site's file system, how it is filled, and how other
// Nodes fill theirs from it. Destroyed on the strand, after StopServing elsewhere.
class DataPath {
 public:
  // Blocks for the disk, and binds the port.
  static absl::StatusOr<std::unique_ptr<DataPath>> Open(const DataPathConfig& config,
                                                        const DataPathDeps& deps);

  // On the strand, once: begins to say to data_loader what is here.
  void Start() { announcer_->Start(); }
  NodeCache* cache() { return cache_.get(); }
  // Not on the strand: sends those who read elsewhere, and closes the port. Idempotent.
  void StopServing(absl::Duration grace);

 private:
  DataPath() = default;

  // In the order of making.
  std::unique_ptr<HeldCopies> copies_;
  std::unique_ptr<LoaderContent> loader_;
  std::unique_ptr<PeerNetwork> peers_;
  std::unique_ptr<LoaderContent> content_;
  std::unique_ptr<ReaderCheck> readers_;
  std::unique_ptr<NodeCache> cache_;
  std::unique_ptr<PeerServer> server_;
  std::unique_ptr<CopyAnnouncer> announcer_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_DATA_PATH_H_
