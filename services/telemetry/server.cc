#include "services/telemetry/server.h"

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "libs/auth/spiffe_id.h"
#include "libs/random/random.h"
#include "libs/rpc/server.h"
#include "libs/status/status_macros.h"
#include "libs/strand/thread_strand.h"
#include "proto/capstan/telemetry/v1/scrape_target.pb.h"
#include "services/telemetry/adapters/http_sd.h"
#include "services/telemetry/adapters/sqlite_job_archive.h"
#include "services/telemetry/adapters/sqlite_subscription_store.h"
#include "services/telemetry/adapters/stream_files.h"
#include "services/telemetry/api/archive_service.h"
#include "services/telemetry/api/scrape_target_service.h"
#include "services/telemetry/api/stream_service.h"
#include "services/telemetry/api/subscription_service.h"
#include "services/telemetry/api/task_session_service.h"
#include "services/telemetry/engine.h"
#include "services/telemetry/lost_cursors.h"
#include "services/telemetry/session_relay.h"
#include "services/telemetry/subscription_engine.h"
#include "services/telemetry/target_inventory.h"

namespace capstan::telemetry {
namespace {

// A Job's events, and what a short one prints; some ten appends. A Stream that gets more is written
// twice up to here.
constexpr int64_t kSmallStreamBytes = 32 << 10;

}  // namespace

// In the order of making.
struct Server::Parts {
  Strand* strand = nullptr;
  std::unique_ptr<StreamFiles> files;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<StreamServiceHandler> service;
  std::unique_ptr<SqliteJobArchive> archive;
  std::unique_ptr<ArchiveServiceHandler> archive_service;
  metrics::ClientAddresses target_readers;
  // Writes the list of scrape targets.
  std::unique_ptr<ThreadStrand> files_strand;
  std::unique_ptr<TargetInventory> targets;
  std::unique_ptr<ScrapeTargetServiceHandler> target_service;
  // Waits for the audit trail's disk. Outlives what posts to it.
  std::unique_ptr<ThreadStrand> audit_strand;
  std::unique_ptr<SqliteSubscriptionStore> subscription_store;
  std::unique_ptr<SubscriptionEngine> subscriptions;
  std::unique_ptr<SubscriptionServiceHandler> subscription_service;
  std::unique_ptr<SessionRelay> relay;
  std::unique_ptr<TaskSessionServiceHandler> session_service;
  std::unique_ptr<rpc::Server> server;

  // Runs `task` on the strand and waits for it.
  void OnStrand(absl::AnyInvocable<void()> task) {
    absl::Notification done;
    strand->Post([&] {
      task();
      done.Notify();
    });
    done.WaitForNotification();
  }
};

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Create(const ServerConfig& config,
                                                       const ServerDeps& deps) {
  auto server = std::unique_ptr<Server>(new Server(std::make_unique<Parts>()));
  Parts& parts = *server->parts_;
  parts.strand = deps.strand;
  StreamFiles::Options files;
  files.root = config.folder;
  files.keep_bytes = config.keep_bytes;
  files.keep_for = config.keep_for;
  files.small_bytes = kSmallStreamBytes;
  CAPSTAN_ASSIGN_OR_RETURN(parts.files,
                           StreamFiles::Open(std::move(files), deps.strand, deps.logger));
  parts.OnStrand([&] {
    parts.engine =
        std::make_unique<Engine>(Engine::Options(), parts.files.get(), deps.strand, deps.metrics);
  });
  parts.service =
      std::make_unique<StreamServiceHandler>(deps.access, parts.engine.get(), deps.strand);
  parts.target_readers = config.target_readers;
  parts.files_strand = std::make_unique<ThreadStrand>("tele.targets", &deps.strand->clock());
  TargetInventory::Options targets;
  targets.path = config.targets_file;
  targets.forget_after = config.forget_targets_after;
  targets.loopback_network = config.loopback_network;
  CAPSTAN_ASSIGN_OR_RETURN(parts.targets,
                           TargetInventory::Open(std::move(targets), parts.files_strand.get(),
                                                 deps.logger, deps.metrics));
  parts.target_service = std::make_unique<ScrapeTargetServiceHandler>(
      deps.access, [inventory = parts.targets.get()](const auth::SpiffeId& caller,
                                                     const v1::ReportScrapeTargetRequest& request) {
        return inventory->Report(caller, request);
      });
  rpc::ServerConfig rpc_config;
  rpc_config.address = config.address;
  rpc_config.credentials = deps.credentials;
  rpc_config.max_connection_age = config.max_connection_age;
  rpc_config.services = {rpc::Registered<v1::StreamService>(parts.service.get()),
                         rpc::Registered<v1::ScrapeTargetService>(parts.target_service.get())};
  if (!config.archive_file.empty()) {
    SqliteJobArchive::Options archive;
    archive.path = config.archive_file;
    archive.keep_for = config.archive_keep_for;
    archive.max_jobs = config.archive_max_jobs;
    CAPSTAN_ASSIGN_OR_RETURN(parts.archive,
                             SqliteJobArchive::Open(std::move(archive), &deps.strand->clock()));
    parts.archive_service = std::make_unique<ArchiveServiceHandler>(
        deps.access, parts.archive.get(), parts.archive->page_token_key());
    rpc_config.services.push_back(rpc::Registered<v1::ArchiveService>(parts.archive_service.get()));
  }
  if (deps.audit != nullptr) {
    parts.audit_strand = std::make_unique<ThreadStrand>("audit", &deps.strand->clock());
    parts.OnStrand([&] {
      parts.relay = std::make_unique<SessionRelay>(
          SessionBook::Limits(),
          SessionRelay::Deps{.strand = deps.strand,
                             .audit_strand = parts.audit_strand.get(),
                             .audit = deps.audit,
                             .access = deps.access,
                             .metrics = deps.metrics},
          Random(deps.seed));
    });
    parts.session_service =
        std::make_unique<TaskSessionServiceHandler>(deps.access, parts.relay.get(), deps.strand);
    rpc_config.services.push_back(
        rpc::Registered<v1::TaskSessionService>(parts.session_service.get()));
  }
  if (deps.audit != nullptr && !config.subscriptions_file.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(
        parts.subscription_store,
        SqliteSubscriptionStore::Open(config.subscriptions_file, &deps.strand->clock()));
    CAPSTAN_ASSIGN_OR_RETURN(auto records, parts.subscription_store->Load());
    MarkLostCursors(deps.strand, parts.engine.get(), parts.subscription_store.get(), deps.logger,
                    &records);
    parts.OnStrand([&] {
      parts.subscriptions = std::make_unique<SubscriptionEngine>(
          SubscriptionEngine::Options(),
          SubscriptionEngine::Deps{.strand = deps.strand,
                                   .streams = parts.engine.get(),
                                   .store = parts.subscription_store.get(),
                                   .audit_strand = parts.audit_strand.get(),
                                   .audit = deps.audit,
                                   .metrics = deps.metrics},
          std::move(records));
    });
    parts.subscription_service = std::make_unique<SubscriptionServiceHandler>(
        deps.access, parts.subscriptions.get(), deps.strand);
    rpc_config.services.push_back(
        rpc::Registered<v1::SubscriptionService>(parts.subscription_service.get()));
  }
  // Once it is known which Streams are read by subscriptions.
  parts.OnStrand([&] { parts.engine->Start(); });
  CAPSTAN_ASSIGN_OR_RETURN(parts.server, rpc::Server::Start(rpc_config));
  return server;
}

Server::~Server() {
  Drain(absl::ZeroDuration());
  // What it still has for the audit trail is written first.
  if (parts_->audit_strand != nullptr) {
    absl::Notification written;
    parts_->audit_strand->Post([&written] { written.Notify(); });
    written.WaitForNotification();
    parts_->audit_strand->Stop();
  }
  parts_->OnStrand([this] {
    parts_->relay.reset();
    parts_->subscriptions.reset();
    parts_->engine.reset();
  });
}

int Server::port() const { return parts_->server->port(); }

std::shared_ptr<grpc::Channel> Server::InProcessChannelForTest() {
  return parts_->server->InProcessChannel();
}

std::function<metrics::Page(const std::string& client)> Server::TargetsPage() const {
  return [parts = parts_.get()](const std::string& client) {
    metrics::Page page;
    if (parts->target_readers.Contain(client)) {
      page.content_type = "application/json";
      page.body = RenderHttpSd(parts->targets->List());
    } else {
      page.status = 403;
      page.body = absl::StrCat(client,
                               " may not read the scrape targets; telemetry's `target_readers` "
                               "names who may, beside its own machine\n");
    }
    return page;
  };
}

void Server::Drain(absl::Duration grace) {
  if (parts_->server == nullptr) return;
  // Followers would use up the grace.
  parts_->OnStrand([this] {
    if (parts_->subscriptions != nullptr) parts_->subscriptions->Stop();
    parts_->engine->Stop();
    if (parts_->relay != nullptr) parts_->relay->Stop();
  });
  parts_->server->Shutdown(grace);
}

}  // namespace capstan::telemetry
