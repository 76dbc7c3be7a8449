#include "services/node_agent/peer_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/dataloader/v1/peer.grpc.pb.h"

namespace capstan::node_agent {

absl::StatusOr<std::unique_ptr<PeerServer>> PeerServer::Start(
    const PeerServerConfig& config, auth::Access* access, const HeldCopies* copies,
    ReaderCheck* check, const Clock* clock, metrics::Registry* registry) {
  auto server = std::unique_ptr<PeerServer>(new PeerServer());
  std::vector<Strand*> disks;
  for (int i = 0; i < std::max(1, config.threads); ++i) {
    disks.push_back(
        server->disks_
            .emplace_back(std::make_unique<ThreadStrand>(absl::StrCat("peers-", i), clock))
            .get());
  }
  server->service_ = std::make_unique<PeerContentService>(access, copies, check, config.content,
                                                          std::move(disks), registry);
  rpc::ServerConfig rpc_config;
  rpc_config.address = config.address;
  rpc_config.credentials = config.credentials;
  rpc_config.max_connection_age = config.max_connection_age;
  rpc_config.max_concurrent_streams = 64;
  rpc_config.services = {
      rpc::Registered<capstan::dataloader::v1::PeerContentService>(server->service_.get())};
  CAPSTAN_ASSIGN_OR_RETURN(server->server_, rpc::Server::Start(rpc_config));
  return server;
}

PeerServer::~PeerServer() {
  Drain(absl::ZeroDuration());
  for (const auto& disk : disks_) disk->Stop();
}

void PeerServer::Drain(absl::Duration grace) {
  if (service_ != nullptr) service_->Leave();
  if (server_ != nullptr) server_->Shutdown(grace);
}

}  // namespace capstan::node_agent
