#include "services/node_agent/data_path.h"

#include "libs/random/random.h"
#include "libs/status/status_macros.h"
#include "services/node_agent/adapters/loader_grpc_content.h"
#include "services/node_agent/adapters/loader_reader_check.h"
#include "services/node_agent/adapters/peered_content.h"

namespace capstan::node_agent {

absl::StatusOr<std::unique_ptr<DataPath>> DataPath::Open(const DataPathConfig& config,
                                                         const DataPathDeps& deps) {
  auto path = std::unique_ptr<DataPath>(new DataPath());
  Random random(deps.seed);
  const std::string& address = config.peer_address;
  path->copies_ = std::make_unique<HeldCopies>(config.cache.folder);
  path->loader_ = MakeLoaderGrpcContent(deps.data_loader, deps.registry, deps.grants);
  if (!address.empty()) {
    path->peers_ = MakePeerGrpcNetwork(deps.data_loader, deps.dial_peer,
                                       {.cluster = config.cluster}, deps.strand, deps.registry);
    path->content_ =
        MakePeeredContent(path->loader_.get(), path->peers_.get(), {.address = address},
                          &deps.strand->clock(), deps.logger, deps.registry);
  }
  LoaderContent* const source = address.empty() ? path->loader_.get() : path->content_.get();
  CAPSTAN_ASSIGN_OR_RETURN(path->cache_,
                           NodeCache::Open(config.cache, source, deps.strand, Random(random.Next()),
                                           deps.logger, deps.registry, path->copies_.get()));
  if (!address.empty()) {
    path->readers_ = MakeLoaderReaderCheck(deps.data_loader, deps.strand);
    PeerServerConfig serving;
    serving.address = address;
    serving.credentials = deps.peer_credentials;
    serving.max_connection_age = deps.max_connection_age;
    serving.content = config.serving;
    serving.content.cluster = config.cluster;
    CAPSTAN_ASSIGN_OR_RETURN(
        path->server_,
        PeerServer::Start(serving, deps.access, path->copies_.get(), path->readers_.get(),
                          &deps.strand->clock(), deps.registry));
  }
  path->announcer_ = std::make_unique<CopyAnnouncer>(
      deps.data_loader, path->copies_.get(),
      [server = path->server_.get()] { return server == nullptr ? 0 : server->uploads(); },
      CopyAnnouncerOptions{.address = address, .max_uploads = config.serving.max_uploads},
      deps.strand, deps.logger);
  return path;
}

void DataPath::StopServing(absl::Duration grace) {
  if (server_ != nullptr) server_->Drain(grace);
}

}  // namespace capstan::node_agent
