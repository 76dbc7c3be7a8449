#include "services/cluster_manager/server.h"

#include <utility>

#include "absl/synchronization/notification.h"
#include "libs/random/random.h"
#include "libs/resource/page.h"
#include "libs/rpc/server.h"
#include "libs/status/status_macros.h"
#include "services/cluster_manager/adapters/scheduler_nodes.h"
#include "services/cluster_manager/api/cluster_service.h"
#include "services/cluster_manager/engine.h"

namespace capstan::cluster_manager {

// In the order of making.
struct Server::Parts {
  Strand* strand = nullptr;
  std::unique_ptr<resource::PageTokens> page_tokens;
  std::unique_ptr<SchedulerNodes> nodes;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<ClusterService> service;
  std::unique_ptr<rpc::Server> server;
  bool drained = false;
};

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Create(const ServerConfig& config,
                                                       const ServerDeps& deps) {
  auto server = std::unique_ptr<Server>(new Server(std::make_unique<Parts>()));
  Parts& parts = *server->parts_;
  parts.strand = deps.strand;
  Random random(deps.seed);
  parts.page_tokens = std::make_unique<resource::PageTokens>(config.page_token_key);
  parts.nodes = std::make_unique<SchedulerNodes>(deps.scheduler, deps.strand, Random(random.Next()),
                                                 deps.logger);
  EngineConfig engine;
  engine.health.owner = config.owner;
  engine.health.raise_after = config.raise_after;
  engine.health.clear_after = config.clear_after;
  engine.member = config.advertised.empty() ? config.address : config.advertised;
  engine.sole_owner = config.sole_owner;
  absl::Notification started;
  deps.strand->Post([&] {
    parts.engine =
        std::make_unique<Engine>(std::move(engine), deps.store, parts.nodes.get(), deps.strand,
                                 Random(random.Next()), deps.logger, deps.metrics);
    parts.engine->Start();
    started.Notify();
  });
  started.WaitForNotification();

  parts.service =
      std::make_unique<ClusterService>(deps.access, deps.store, parts.page_tokens.get());
  rpc::ServerConfig rpc_config;
  rpc_config.address = config.address;
  rpc_config.credentials = deps.credentials;
  rpc_config.max_connection_age = config.max_connection_age;
  rpc_config.services = {
      rpc::Registered<capstan::clustermanager::v1::ClusterService>(parts.service.get())};
  CAPSTAN_ASSIGN_OR_RETURN(parts.server, rpc::Server::Start(rpc_config));
  // Whoever is asked knows: answers come from the store.
  parts.server->SetServing(rpc::kLeaderHealth, true);
  return server;
}

Server::~Server() {
  Drain(absl::ZeroDuration());
  absl::Notification gone;
  parts_->strand->Post([this, &gone] {
    parts_->engine.reset();
    parts_->nodes.reset();
    gone.Notify();
  });
  gone.WaitForNotification();
}

int Server::port() const { return parts_->server->port(); }

std::shared_ptr<grpc::Channel> Server::InProcessChannelForTest() {
  return parts_->server->InProcessChannel();
}

void Server::Drain(absl::Duration grace) {
  if (std::exchange(parts_->drained, true)) return;
  // The others need not wait for the leases.
  absl::Notification resigned;
  parts_->strand->Post([&] {
    if (parts_->engine == nullptr) return resigned.Notify();
    parts_->engine->Resign([&](const absl::Status&) { resigned.Notify(); });
  });
  resigned.WaitForNotification();
  if (parts_->server != nullptr) parts_->server->Shutdown(grace);
}

}  // namespace capstan::cluster_manager
