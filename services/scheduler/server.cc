#include "services/scheduler/server.h"

#include <utility>

#include "absl/synchronization/notification.h"
#include "libs/event_shipper/event_shipper.h"
#include "libs/random/random.h"
#include "libs/resource/page.h"
#include "libs/rpc/server.h"
#include "libs/status/status_macros.h"
#include "libs/strand/thread_strand.h"
#include "services/scheduler/adapters/data_loader_source.h"
#include "services/scheduler/adapters/telemetry_archive.h"
#include "services/scheduler/api/capacity_order_service.h"
#include "services/scheduler/api/executor_session_service.h"
#include "services/scheduler/api/job_service.h"
#include "services/scheduler/api/node_service.h"
#include "services/scheduler/api/queue_service.h"
#include "services/scheduler/api/simulation_service.h"
#include "services/scheduler/batch_simulations.h"
#include "services/scheduler/committed_view.h"
#include "services/scheduler/demand_view.h"
#include "services/scheduler/engine.h"
#include "services/scheduler/placement_signer.h"
#include "services/scheduler/share_view.h"
#include "services/scheduler/simulations.h"

namespace capstan::scheduler {
namespace {

// How long an end of the process waits for the last of the recording.
constexpr absl::Duration kWriteRecording = absl::Seconds(1);

}  // namespace

// In the order of making; what belongs to the strand is made and unmade there.
struct Server::Parts {
  Parts(const ServerConfig& config, const ServerDeps& deps)
      : strand(deps.strand), random(deps.seed), tokens(config.page_token_key) {}

  Strand* const strand;
  Random random;
  const resource::PageTokens tokens;
  std::unique_ptr<DataLoaderSource> data;
  std::unique_ptr<EventShipper> shipper;
  std::unique_ptr<TelemetryArchive> archive;
  std::unique_ptr<CommittedView> view;
  std::unique_ptr<DemandView> demand;
  std::unique_ptr<ShareView> shares;
  std::unique_ptr<PlacementSigner> placements;
  // Writes; what runs here outlives the recorder.
  std::unique_ptr<ThreadStrand> recorder_strand;
  std::unique_ptr<FlightRecorder> recorder;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<JobService> job_service;
  std::unique_ptr<QueueService> queue_service;
  std::unique_ptr<NodeService> node_service;
  std::unique_ptr<CapacityOrderService> order_service;
  std::unique_ptr<ExecutorSessionService> session_service;
  std::unique_ptr<SimulationService> simulation_service;
  std::unique_ptr<Simulations> simulations;
  std::unique_ptr<BatchSimulations> batches;
  // Where those run. What does uses the services above.
  std::unique_ptr<ThreadStrand> simulating;
  std::unique_ptr<ThreadStrand> batch_simulating;
  std::unique_ptr<rpc::Server> server;
  // As the engine said last. On the strand, on which `server` is set too.
  bool leading = false;
  bool drained = false;

  // Runs `task` on the strand and waits for it.
  template <typename Task>
  void OnStrand(Task task) {
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
  auto server = std::unique_ptr<Server>(new Server(std::make_unique<Parts>(config, deps)));
  Parts& parts = *server->parts_;
  parts.OnStrand([&] {
    parts.data = std::make_unique<DataLoaderSource>(deps.data_loader, deps.strand,
                                                    Random(parts.random.Next()), deps.logger);
    if (deps.telemetry != nullptr) {
      parts.shipper = std::make_unique<EventShipper>(
          deps.telemetry, deps.strand, deps.logger,
          EventShipper::Options{.producer = "scheduler", .incarnation = deps.store->incarnation()});
    }
    if (deps.telemetry != nullptr) {
      parts.archive = std::make_unique<TelemetryArchive>(deps.telemetry, deps.strand);
    }
    parts.view = std::make_unique<CommittedView>(deps.store, deps.strand, deps.logger);
    parts.demand =
        std::make_unique<DemandView>(config.demand, parts.view.get(), deps.strand, deps.metrics);
    parts.shares = std::make_unique<ShareView>(parts.view.get(), parts.demand.get(), deps.strand,
                                               deps.metrics);
    EngineConfig engine;
    engine.core = config.core;
    engine.address = config.advertised.empty() ? config.address : config.advertised;
    engine.leadership_ttl = config.leadership_ttl;
    engine.leadership_margin = config.leadership_margin;
    engine.sole_owner = config.sole_owner;
    engine.max_waiting_events = config.max_waiting_events;
    EngineDeps engine_deps;
    engine_deps.strand = deps.strand;
    engine_deps.store = deps.store;
    engine_deps.data = parts.data.get();
    if (parts.shipper != nullptr) {
      engine_deps.ship = [shipper = parts.shipper.get()](
                             const std::vector<store::OutboxRecord>& records,
                             store::DoneCallback taken) {
        shipper->Ship(records, std::move(taken));
      };
    }
    engine_deps.on_leading = [parts = server->parts_.get()](bool leading) {
      parts->leading = leading;
      parts->batches->SetLeading(leading);
      if (parts->server != nullptr) parts->server->SetServing(rpc::kLeaderHealth, leading);
    };
    if (parts.archive != nullptr) {
      engine_deps.archive = [archive = parts.archive.get()](
                                const std::vector<capstan::scheduler::v1::Job>& jobs,
                                absl::AnyInvocable<void(absl::Status)> done) {
        archive->Put(jobs, std::move(done));
      };
    }
    engine_deps.logger = deps.logger;
    engine_deps.metrics = deps.metrics;
    engine_deps.spans = deps.spans;
    engine_deps.view = parts.view.get();
    if (config.recorder.has_value()) {
      parts.recorder_strand = std::make_unique<ThreadStrand>("recorder", &deps.strand->clock());
      parts.recorder = std::make_unique<FlightRecorder>(
          *config.recorder, parts.recorder_strand.get(), deps.logger, deps.metrics);
      engine_deps.recorder = parts.recorder.get();
    }
    parts.engine = std::make_unique<Engine>(std::move(engine), engine_deps);
    parts.simulating = std::make_unique<ThreadStrand>("simulations", &deps.strand->clock());
    parts.simulations = std::make_unique<Simulations>(
        config.core, Simulations::Options(), parts.view.get(), deps.strand, parts.simulating.get());
    parts.batch_simulating = std::make_unique<ThreadStrand>("batches", &deps.strand->clock());
    BatchSimulations::Options batches;
    batches.max_core_percent = config.batch_max_core_percent;
    parts.batches =
        std::make_unique<BatchSimulations>(config.core, batches, parts.view.get(), deps.strand,
                                           parts.batch_simulating.get(), deps.cpu, deps.metrics);
    parts.view->Start();
    parts.engine->Start();
  });

  ApiDeps api;
  api.access = deps.access;
  api.audit = deps.audit;
  api.strand = deps.strand;
  api.simulations = parts.simulations.get();
  api.random = &parts.random;
  api.engine = parts.engine.get();
  api.view = parts.view.get();
  api.demand = parts.demand.get();
  api.shares = parts.shares.get();
  api.tokens = &parts.tokens;
  if (deps.identity != nullptr) {
    parts.placements = std::make_unique<PlacementSigner>(deps.identity, &deps.strand->clock());
    api.placements = parts.placements.get();
  }
  const int64_t incarnation = deps.store->incarnation();
  parts.job_service = std::make_unique<JobService>(api, config.core, incarnation);
  parts.queue_service = std::make_unique<QueueService>(api);
  parts.node_service = std::make_unique<NodeService>(api, incarnation);
  parts.order_service = std::make_unique<CapacityOrderService>(api);
  parts.session_service = std::make_unique<ExecutorSessionService>(api);
  parts.simulation_service =
      std::make_unique<SimulationService>(api, config.core, parts.batches.get());

  namespace pb = ::capstan::scheduler::v1;
  rpc::ServerConfig rpc_config;
  rpc_config.address = config.address;
  rpc_config.credentials = deps.credentials;
  rpc_config.max_connection_age = config.max_connection_age;
  rpc_config.services = {rpc::Registered<pb::JobService>(parts.job_service.get()),
                         rpc::Registered<pb::QueueService>(parts.queue_service.get()),
                         rpc::Registered<pb::NodeService>(parts.node_service.get()),
                         rpc::Registered<pb::CapacityOrderService>(parts.order_service.get()),
                         rpc::Registered<pb::ExecutorSession>(parts.session_service.get()),
                         rpc::Registered<pb::SimulationService>(parts.simulation_service.get())};
  CAPSTAN_ASSIGN_OR_RETURN(std::unique_ptr<rpc::Server> started, rpc::Server::Start(rpc_config));
  parts.OnStrand([&] {
    parts.server = std::move(started);
    parts.server->SetServing(rpc::kLeaderHealth, parts.leading);
  });
  return server;
}

Server::~Server() {
  Drain(absl::ZeroDuration());
  // After the server is down no handler posts any more: this is the last word on the strand.
  parts_->OnStrand([this] {
    parts_->engine.reset();
    parts_->batches.reset();
    parts_->simulations.reset();
    parts_->shares.reset();
    parts_->demand.reset();
    parts_->view.reset();
    parts_->archive.reset();
    parts_->shipper.reset();
    parts_->data.reset();
  });
}

int Server::port() const { return parts_->server->port(); }

std::shared_ptr<grpc::Channel> Server::InProcessChannelForTest() {
  return parts_->server->InProcessChannel();
}

absl::Status Server::Ready() const {
  absl::Status ready;
  parts_->OnStrand([&] {
    if (!parts_->view->ready()) {
      ready = absl::UnavailableError("what the store holds is not read yet");
    } else if (!parts_->engine->knows_leader()) {
      ready = absl::UnavailableError("it does not lead yet, nor is it known who does");
    }
  });
  return ready;
}

void Server::Drain(absl::Duration grace) {
  if (std::exchange(parts_->drained, true)) return;
  // Speaks no more before it stops to lead, and stops to lead before it goes: the next leader need
  // not wait for the lease.
  absl::Notification resigned;
  parts_->strand->Post([&] {
    parts_->engine->Resign([&](absl::Status) { resigned.Notify(); });
    parts_->view->CloseListeners();
  });
  resigned.WaitForNotification();
  if (parts_->recorder != nullptr) parts_->recorder->Flush(kWriteRecording);
  if (parts_->server != nullptr) parts_->server->Shutdown(grace);
}

}  // namespace capstan::scheduler
