#include "services/data_loader/server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "libs/resource/page.h"
#include "libs/rpc/server.h"
#include "libs/status/status_macros.h"
#include "libs/store/leadership.h"
#include "libs/strand/thread_strand.h"
#include "services/data_loader/adapters/directory_site.h"
#include "services/data_loader/api/bundle_service.h"
#include "services/data_loader/api/committed_state.h"
#include "services/data_loader/api/content_service.h"
#include "services/data_loader/api/dataset_service.h"
#include "services/data_loader/api/peer_service.h"
#include "services/data_loader/api/site_service.h"
#include "services/data_loader/engine.h"

namespace capstan::data_loader {
namespace {

constexpr absl::Duration kLeaseTtl = absl::Seconds(3);

}  // namespace

// In the order of making; Drain and the destructor go backwards.
struct Server::Parts {
  Strand* strand = nullptr;
  std::unique_ptr<CommittedState> state;
  std::unique_ptr<resource::PageTokens> page_tokens;
  std::unique_ptr<ThreadStrand> disk;
  std::unique_ptr<ThreadStrand> output_disk;
  std::vector<std::unique_ptr<ThreadStrand>> content_disks;
  std::unique_ptr<DirectorySite> site;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<DatasetService> dataset_service;
  std::unique_ptr<DataLoadService> load_service;
  std::unique_ptr<BundleService> bundle_service;
  std::unique_ptr<OutputService> output_service;
  std::unique_ptr<ContentService> content_service;
  std::unique_ptr<PeerService> peer_service;
  std::unique_ptr<SiteService> site_service;
  std::unique_ptr<rpc::Server> server;
  // As the engine said last. On the strand, on which `server` is set too.
  bool leading = false;
  bool replicated = false;
  bool drained = false;
};

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Create(const ServerConfig& config,
                                                       const ServerDeps& deps) {
  auto server = std::unique_ptr<Server>(new Server(std::make_unique<Parts>()));
  Parts& parts = *server->parts_;
  parts.strand = deps.strand;
  Random random(deps.seed);
  parts.state = std::make_unique<CommittedState>(deps.store);
  parts.page_tokens = std::make_unique<resource::PageTokens>(config.page_token_key);
  parts.disk = std::make_unique<ThreadStrand>("uploads", deps.clock);
  parts.output_disk = std::make_unique<ThreadStrand>("outputs", deps.clock);
  std::vector<Strand*> readers;
  for (int i = 0; i < std::max(1, config.content_threads); ++i) {
    readers.push_back(
        parts.content_disks
            .emplace_back(std::make_unique<ThreadStrand>(absl::StrCat("content-", i), deps.clock))
            .get());
  }
  LoadOptions options;
  options.allowed_source_roots = config.allowed_source_roots;
  options.http = config.http;
  CAPSTAN_ASSIGN_OR_RETURN(parts.site,
                           DirectorySite::Open(config.site_directory, options, config.disk_threads,
                                               Random(random.Next()), deps.strand));
  EngineConfig engine;
  engine.core.site = config.site;
  engine.core.clusters = config.clusters;
  engine.core.site_limit_bytes = config.site_limit_bytes;
  // One thread stays free for outputs, so that loads can't hold up checkpoints.
  engine.core.max_running_loads = std::max(1, config.disk_threads - 1);
  parts.replicated = config.replicated;
  if (config.replicated) {
    store::Leadership::Options& leadership = engine.leadership.emplace();
    // One key for each Site: who acts there.
    leadership.key = absl::StrCat(kKeyPrefix, "owner/", config.site);
    leadership.value = config.advertised.empty() ? config.address : config.advertised;
    leadership.ttl = kLeaseTtl;
    engine.on_lost = deps.on_lost;
  }
  engine.on_leading = [parts = server->parts_.get()] {
    parts->leading = true;
    if (parts->server != nullptr) parts->server->SetServing(rpc::kLeaderHealth, true);
  };
  parts.engine =
      std::make_unique<Engine>(std::move(engine), deps.store, parts.site.get(), deps.strand,
                               Random(random.Next()), deps.logger, deps.metrics);
  absl::Notification ready;
  absl::Status started;
  deps.strand->Post([&] {
    parts.engine->Start([&](absl::Status status) {
      started = std::move(status);
      ready.Notify();
    });
  });
  ready.WaitForNotification();
  CAPSTAN_RETURN_IF_ERROR(started);

  const ApiDeps api{deps.access, deps.strand, parts.engine.get(), parts.state.get(),
                    parts.page_tokens.get()};
  parts.dataset_service = std::make_unique<DatasetService>(api);
  parts.load_service = std::make_unique<DataLoadService>(api);
  parts.bundle_service = std::make_unique<BundleService>(api, parts.site.get(), parts.disk.get());
  parts.output_service = std::make_unique<OutputService>(api);
  parts.site_service = std::make_unique<SiteService>(api);
  parts.peer_service = std::make_unique<PeerService>(api, parts.site.get(), readers, deps.metrics);
  parts.content_service = std::make_unique<ContentService>(
      api, parts.site.get(), std::move(readers), parts.output_disk.get(), deps.metrics);
  namespace pb = ::capstan::dataloader::v1;
  rpc::ServerConfig rpc_config;
  rpc_config.address = config.address;
  rpc_config.credentials = deps.credentials;
  rpc_config.max_connection_age = config.max_connection_age;
  rpc_config.services = {rpc::Registered<pb::DatasetService>(parts.dataset_service.get()),
                         rpc::Registered<pb::DataLoadService>(parts.load_service.get()),
                         rpc::Registered<pb::BundleService>(parts.bundle_service.get()),
                         rpc::Registered<pb::OutputService>(parts.output_service.get()),
                         rpc::Registered<pb::ContentService>(parts.content_service.get()),
                         rpc::Registered<pb::PeerService>(parts.peer_service.get()),
                         rpc::Registered<pb::SiteService>(parts.site_service.get())};
  CAPSTAN_ASSIGN_OR_RETURN(std::unique_ptr<rpc::Server> started_server,
                           rpc::Server::Start(rpc_config));
  absl::Notification set;
  deps.strand->Post([&] {
    parts.server = std::move(started_server);
    parts.server->SetServing(rpc::kLeaderHealth, parts.leading);
    set.Notify();
  });
  set.WaitForNotification();
  return server;
}

Server::~Server() {
  Drain(absl::ZeroDuration());
  // What they still hold refers to the site and the engine.
  parts_->disk->Stop();
  parts_->output_disk->Stop();
  for (const auto& disk : parts_->content_disks) disk->Stop();
  // The engine and what the site posted belong to the strand: they go there, after what is queued.
  absl::Notification gone;
  parts_->strand->Post([this, &gone] {
    parts_->engine.reset();
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
  // With nobody else to turn to, calls in hand end first; otherwise the other replica should not
  // wait for them.
  if (parts_->server != nullptr && !parts_->replicated) parts_->server->Shutdown(grace);
  absl::Notification stopped;
  parts_->strand->Post([&] {
    if (parts_->server != nullptr && parts_->replicated) {
      parts_->server->SetServing(rpc::kLeaderHealth, false);
    }
    if (parts_->engine != nullptr) parts_->engine->Stop();
    stopped.Notify();
  });
  stopped.WaitForNotification();
  // Nothing here touches the Site any more when another process may.
  if (parts_->site != nullptr) parts_->site->Stop();
  absl::Notification resigned;
  parts_->strand->Post([&] {
    if (parts_->engine == nullptr) return resigned.Notify();
    parts_->engine->Resign([&](const absl::Status&) { resigned.Notify(); });
  });
  resigned.WaitForNotification();
  if (parts_->server != nullptr && parts_->replicated) parts_->server->Shutdown(grace);
}

}  // namespace capstan::data_loader
