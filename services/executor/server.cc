#include "services/executor/server.h"

#include <utility>

#include "absl/synchronization/notification.h"
#include "libs/random/random.h"
#include "libs/rpc/server.h"
#include "libs/session/rpc_channel.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/executor/v1/agent_session.grpc.pb.h"
#include "proto/capstan/scheduler/v1/executor_session.grpc.pb.h"
#include "services/executor/api/agent_session_service.h"
#include "services/executor/engine.h"

namespace capstan::executor {

// In the order of making.
struct Server::Parts {
  Strand* strand = nullptr;
  std::unique_ptr<session::UpDialer> dialer;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<AgentSessionService> service;
  std::unique_ptr<rpc::Server> server;

  // Runs on the strand and waits.
  void Run(const std::function<void()>& work) const {
    absl::Notification done;
    strand->Post([&] {
      work();
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
  parts.dialer = std::make_unique<session::RpcUpDialer<capstan::scheduler::v1::ExecutorSession>>(
      deps.scheduler, deps.strand);
  CoreConfig core;
  core.cluster = config.cluster;
  core.suspect_after = config.suspect_after;
  core.first_uid = config.first_uid;
  core.last_uid = config.last_uid;
  absl::Notification ready;
  parts.Run([&] {
    parts.engine = std::make_unique<Engine>(core,
                                            Engine::Deps{.strand = deps.strand,
                                                         .store = deps.store,
                                                         .scheduler = parts.dialer.get(),
                                                         .logger = deps.logger,
                                                         .registry = deps.registry,
                                                         .spans = deps.spans},
                                            Random(deps.seed));
    parts.engine->Start([&ready] { ready.Notify(); });
  });
  ready.WaitForNotification();

  Engine* const engine = parts.engine.get();
  parts.service = std::make_unique<AgentSessionService>(
      config.cluster, deps.access, deps.strand,
      AgentSessionSink{
          .connected =
              [engine](const std::string& node, std::shared_ptr<session::DownChannel> channel) {
                return engine->OnAgentConnected(node, std::move(channel));
              },
          .message =
              [engine](uint64_t session, capstan::type::v1::SessionUp message) {
                engine->OnAgentMessage(session, std::move(message));
              },
          .pace =
              [engine](absl::AnyInvocable<void()> read_on) {
                engine->PaceAgent(std::move(read_on));
              },
          .closed = [engine](uint64_t session) { engine->OnAgentClosed(session); }});
  rpc::ServerConfig rpc_config;
  rpc_config.address = config.address;
  rpc_config.credentials = deps.credentials;
  rpc_config.max_connection_age = config.max_connection_age;
  // A Node has one session, and another while it comes back; the rest is for health. Each that is
  // opened costs memory until it is over, also one that is refused.
  rpc_config.max_concurrent_streams = 64;
  rpc_config.services = {rpc::Registered<capstan::executor::v1::AgentSession>(parts.service.get())};
  CAPSTAN_ASSIGN_OR_RETURN(parts.server, rpc::Server::Start(rpc_config));
  return server;
}

Server::~Server() {
  Drain(absl::ZeroDuration());
  parts_->Run([this] { parts_->engine.reset(); });
}

int Server::port() const { return parts_->server->port(); }

std::shared_ptr<grpc::Channel> Server::InProcessChannelForTest() {
  return parts_->server->InProcessChannel();
}

absl::Status Server::Ready() const {
  absl::Status ready;
  parts_->Run([&] {
    const ExecutorCore* core = parts_->engine->core();
    if (core == nullptr || !core->synced()) {
      ready = absl::UnavailableError("the scheduler's snapshot has not come yet");
    }
  });
  return ready;
}

void Server::Drain(absl::Duration grace) {
  parts_->Run([this] {
    if (parts_->engine != nullptr) parts_->engine->Stop();
  });
  if (parts_->server != nullptr) parts_->server->Shutdown(grace);
}

}  // namespace capstan::executor
