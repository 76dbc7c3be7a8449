#include "services/data_loader/server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "libs/resource/page.h"
#include "libs/rpc/server.h"
#include "libs/status/status_macros.h"
#include "libs/strand/thread_strand.h"
#include "services/data_loader/adapters/directory_site.h"
#include "services/data_loader/api/bundle_service.h"
#include "services/data_loader/api/committed_state.h"
#include "services/data_loader/api/content_service.h"
#include "services/data_loader/api/dataset_service.h"
#include "services/data_loader/engine.h"

namespace capstan::data_loader {

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
  std::unique_ptr<rpc::Server> server;
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
  LoaderConfig core_config;
  core_config.site = config.site;
  core_config.clusters = config.clusters;
  core_config.site_limit_bytes = config.site_limit_bytes;
  // One thread stays free for outputs, so that loads can't hold up checkpoints.
  core_config.max_running_loads = std::max(1, config.disk_threads - 1);
  parts.engine = std::make_unique<Engine>(core_config, deps.store, parts.site.get(), deps.strand,
                                          Random(random.Next()), deps.logger);
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
  parts.content_service = std::make_unique<ContentService>(
      api, parts.site.get(), std::move(readers), parts.output_disk.get());
  namespace pb = ::capstan::dataloader::v1;
  rpc::ServerConfig rpc_config;
  rpc_config.address = config.address;
  rpc_config.credentials = deps.credentials;
  rpc_config.max_connection_age = config.max_connection_age;
  rpc_config.services = {rpc::Registered<pb::DatasetService>(parts.dataset_service.get()),
                         rpc::Registered<pb::DataLoadService>(parts.load_service.get()),
                         rpc::Registered<pb::BundleService>(parts.bundle_service.get()),
                         rpc::Registered<pb::OutputService>(parts.output_service.get()),
                         rpc::Registered<pb::ContentService>(parts.content_service.get())};
  CAPSTAN_ASSIGN_OR_RETURN(parts.server, rpc::Server::Start(rpc_config));
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
  if (parts_->server != nullptr) parts_->server->Shutdown(grace);
}

}  // namespace capstan::data_loader
