#include "tools/capstan/serve/part_context.h"

#include <signal.h>
#include <unistd.h>

#include <deque>
#include <random>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "libs/audit/audit_log.h"
#include "libs/auth/join.h"
#include "libs/auth/policy.h"
#include "libs/auth/policy_access.h"
#include "libs/auth/policy_watcher.h"
#include "libs/auth/refused_handshakes.h"
#include "libs/auth/svid_renewer.h"
#include "libs/lifecycle/signal_thread.h"
#include "libs/log/spdlog_sink.h"
#include "libs/metrics/endpoint_server.h"
#include "libs/random/random.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/server.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/sqlite_store.h"
#include "libs/strand/thread_strand.h"
#include "proto/capstan/credentials/v1/join_service.grpc.pb.h"
#include "proto/capstan/credentials/v1/project.grpc.pb.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/dev/parts.h"
#include "tools/capstan/dev/platform_config.h"
#include "tools/capstan/serve/kept_secret.h"

namespace capstan::serve {
namespace {

constexpr absl::Duration kFlushDenialsEvery = absl::Minutes(1);
// Beside the signals, which are all above it.
constexpr int kIdentityExpired = 0;

log::Level LevelOf(cli::v1::PlatformConfig::LogLevel level) {
  switch (level) {
    case cli::v1::PlatformConfig::LOG_LEVEL_DEBUG:
      return log::Level::kDebug;
    case cli::v1::PlatformConfig::LOG_LEVEL_WARNING:
      return log::Level::kWarning;
    case cli::v1::PlatformConfig::LOG_LEVEL_ERROR:
      return log::Level::kError;
    default:
      return log::Level::kInfo;
  }
}

// Reasons to stop, for one thread that waits for them: signals, or kIdentityExpired.
class SignalQueue {
 public:
  void Add(int signal) {
    absl::MutexLock lock(&mutex_);
    signals_.push_back(signal);
  }
  int Wait() {
    absl::MutexLock lock(&mutex_);
    const auto any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !signals_.empty(); };
    mutex_.Await(absl::Condition(&any));
    const int signal = signals_.front();
    signals_.pop_front();
    return signal;
  }

 private:
  absl::Mutex mutex_;
  std::deque<int> signals_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::unique_ptr<log::Sink>> OpenLog(const std::string& data_dir,
                                                   const std::string& part) {
  // Started by hand, a part logs where its starter looks.
  if (isatty(STDERR_FILENO) == 1) return log::MakeStderrSink(log::Format::kHuman);
  return log::MakeFileSink({.path = absl::StrCat(dev::LogFolder(data_dir), "/", part, ".log"),
                            .format = log::Format::kHuman});
}

}  // namespace

// In the order of making.
struct PartContext::Parts {
  std::string part;
  std::string folder;
  const Clock* clock = nullptr;
  SignalQueue signals;
  std::unique_ptr<lifecycle::SignalThread> signal_thread;
  cli::v1::PlatformConfig config;
  cli::v1::Endpoints endpoints;
  std::unique_ptr<log::Sink> sink;
  std::unique_ptr<log::Logger> logger;
  std::unique_ptr<metrics::Registry> registry;
  std::random_device seeds;
  std::shared_ptr<rpc::Identity> identity;
  std::unique_ptr<audit::AuditLog> audit;
  // Shared with the transport, which may hold it for longer than the part lives.
  std::shared_ptr<auth::RefusedHandshakes> refused;
  auth::PolicyHolder policy;
  std::unique_ptr<auth::PolicyAccess> access;
  std::unique_ptr<Random> auth_random;
  std::unique_ptr<credentials::v1::PolicyService::Stub> policy_stub;
  std::unique_ptr<credentials::v1::IdentityService::Stub> identity_stub;
  // Watches the policy and renews the SVID; apart from the engine's strand, so that neither waits
  // for the other.
  std::unique_ptr<ThreadStrand> auth_strand;
  std::unique_ptr<auth::PolicyWatcher> watcher;
  std::unique_ptr<auth::SvidRenewer> renewer;
  std::unique_ptr<ThreadStrand> strand;
  std::unique_ptr<store::SqliteStore> store;
  std::unique_ptr<metrics::EndpointServer> endpoint_server;

  // Nothing runs on the strands any more when what they touch goes.
  ~Parts() {
    if (strand != nullptr) strand->Stop();
    if (auth_strand != nullptr) auth_strand->Stop();
    if (refused != nullptr) refused->Close();
  }

  rpc::RefusalObserver Observe(auth::RefusedHandshakes::Side side) const {
    return [refused = refused, side](const absl::Status& why, absl::string_view spiffe_id) {
      refused->Record(side, why, spiffe_id);
    };
  }
  std::shared_ptr<grpc::Channel> ChannelTo(absl::string_view other) const {
    return rpc::Dial(
        endpoints.parts().at(std::string(other)).address(),
        rpc::MutualTlsChannelCredentials(identity, clock, dev::FindPart(other)->identity_path,
                                         Observe(auth::RefusedHandshakes::Side::kClient)));
  }

  void FlushDenials() {
    access->FlushDenials();
    refused->Flush();
    auth_strand->RunAfter(kFlushDenialsEvery, [this] { FlushDenials(); });
  }

  absl::Status JoinPlatform(const ServeOptions& options);
};

PartContext::PartContext(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

PartContext::~PartContext() {
  parts_->endpoint_server.reset();
  parts_->logger->Info("stopped");
}

absl::StatusOr<std::unique_ptr<PartContext>> PartContext::Open(const ServeOptions& options,
                                                               absl::string_view part,
                                                               const Clock* clock,
                                                               bool with_identity) {
  auto parts = std::make_unique<Parts>();
  parts->part = std::string(part);
  parts->folder = dev::PartFolder(options.data_dir, part);
  parts->clock = clock;
  CAPSTAN_ASSIGN_OR_RETURN(parts->signal_thread,
                           lifecycle::SignalThread::Create(
                               {SIGTERM, SIGINT, dev::kStopTasksSignal},
                               [signals = &parts->signals](int signal) { signals->Add(signal); }));
  // A peer that is gone shows as an error of the write, not as a signal.
  signal(SIGPIPE, SIG_IGN);
  CAPSTAN_ASSIGN_OR_RETURN(parts->config, dev::ReadPlatformConfig(options.data_dir));
  CAPSTAN_ASSIGN_OR_RETURN(parts->endpoints, cli::ReadEndpoints(options.data_dir));
  if (parts->endpoints.parts().count(parts->part) == 0) {
    return status::Error(absl::StatusCode::kFailedPrecondition, "NO_SUCH_PART",
                         absl::StrCat("endpoints.json of ", options.data_dir, " names no ", part));
  }
  CAPSTAN_ASSIGN_OR_RETURN(parts->sink, OpenLog(options.data_dir, parts->part));
  parts->logger = std::make_unique<log::Logger>(part, clock, parts->sink.get(),
                                                LevelOf(parts->config.log_level()));
  parts->logger->Info("starting", {{"pid", getpid()}});
  parts->registry = std::make_unique<metrics::Registry>(part);
  if (with_identity) {
    const absl::Status joined = parts->JoinPlatform(options);
    if (!joined.ok()) {
      parts->logger->Error("cannot start", {{"error", joined}});
      return joined;
    }
  }
  parts->strand = std::make_unique<ThreadStrand>(parts->part, clock);
  CAPSTAN_ASSIGN_OR_RETURN(
      parts->store,
      store::SqliteStore::Open(absl::StrCat(parts->folder, "/store.sqlite"), parts->strand.get()));
  return std::unique_ptr<PartContext>(new PartContext(std::move(parts)));
}

absl::Status PartContext::Parts::JoinPlatform(const ServeOptions& options) {
  auth::ObtainOptions obtain;
  obtain.folder = dev::IdentityFolder(options.data_dir, part);
  obtain.join_address = endpoints.join_address();
  obtain.token_fd = options.join_token_fd;
  CAPSTAN_ASSIGN_OR_RETURN(identity, auth::ObtainIdentity(obtain, clock));
  CAPSTAN_ASSIGN_OR_RETURN(
      audit, audit::AuditLog::Open(absl::StrCat(folder, "/audit.chain"), part, clock));
  refused =
      std::make_shared<auth::RefusedHandshakes>(audit.get(), clock, logger.get(), registry.get());
  access = std::make_unique<auth::PolicyAccess>(
      identity->trust_domain(), &policy, clock, audit.get(),
      [calls = registry->AddCounter("calls_refused_total",
                                    "Calls that the access rules refused")]() mutable {
        calls.Increment();
      });
  const auto channel = ChannelTo(dev::kCredentials);
  policy_stub = credentials::v1::PolicyService::NewStub(channel);
  identity_stub = credentials::v1::IdentityService::NewStub(channel);
  auth_random = std::make_unique<Random>(uint64_t{seeds()} << 32 | seeds());
  auth_strand = std::make_unique<ThreadStrand>(absl::StrCat(part.substr(0, 9), ".auth"), clock);
  watcher = std::make_unique<auth::PolicyWatcher>(policy_stub.get(), &policy, auth_strand.get(),
                                                  auth_random.get());
  renewer = std::make_unique<auth::SvidRenewer>(
      identity, auth_strand.get(), auth_random.get(),
      auth::RenewOver(identity_stub.get(), auth_strand.get()),
      [this](const absl::Status& renewed) {
        if (renewed.ok()) {
          logger->Info("SVID renewed", {{"not_after", identity->Get()->not_after}});
        } else {
          logger->Warning("SVID not renewed", {{"error", renewed}});
        }
      },
      [this] { signals.Add(kIdentityExpired); });
  // Nodes have no people to decide about.
  const bool watches_policy = part != dev::kNodeAgent;
  auth_strand->Post([this, watches_policy] {
    if (watches_policy) watcher->Start();
    renewer->Start();
    FlushDenials();
  });
  return absl::OkStatus();
}

const cli::v1::PlatformConfig& PartContext::config() const { return parts_->config; }
const std::string& PartContext::folder() const { return parts_->folder; }
const cli::v1::Endpoints& PartContext::endpoints() const { return parts_->endpoints; }
const std::string& PartContext::address() const {
  return parts_->endpoints.parts().at(parts_->part).address();
}
const Clock* PartContext::clock() const { return parts_->clock; }
audit::AuditSink* PartContext::audit() { return parts_->audit.get(); }
log::Logger* PartContext::logger() { return parts_->logger.get(); }
metrics::Registry* PartContext::registry() { return parts_->registry.get(); }
Strand* PartContext::strand() { return parts_->strand.get(); }
store::Store* PartContext::store() { return parts_->store.get(); }
auth::Access* PartContext::access() { return parts_->access.get(); }
std::shared_ptr<rpc::Identity> PartContext::identity() { return parts_->identity; }

std::shared_ptr<grpc::ServerCredentials> PartContext::server_credentials() {
  return rpc::MutualTlsServerCredentials(parts_->identity, parts_->clock,
                                         parts_->Observe(auth::RefusedHandshakes::Side::kServer));
}

absl::Duration PartContext::max_connection_age() const {
  return rpc::ConnectionAge(*parts_->identity->Get(), parts_->clock->Read().wall);
}

std::shared_ptr<grpc::Channel> PartContext::ChannelTo(absl::string_view part) {
  return parts_->ChannelTo(part);
}

absl::StatusOr<std::string> PartContext::KeptSecret(absl::string_view name) {
  return ReadOrMakeSecret(absl::StrCat(parts_->folder, "/", name));
}

uint64_t PartContext::NewSeed() { return uint64_t{parts_->seeds()} << 32 | parts_->seeds(); }

absl::Status PartContext::ServeMetrics(std::function<absl::Status()> ready) {
  metrics::EndpointServer::Options options;
  const std::string& address = parts_->endpoints.parts().at(parts_->part).metrics_address();
  const size_t colon = address.rfind(':');
  options.host = address.substr(0, colon);
  options.port = std::stoi(address.substr(colon + 1));
  const bool needs_policy = parts_->identity != nullptr && parts_->part != dev::kNodeAgent;
  options.ready = [parts = parts_.get(), needs_policy, ready = std::move(ready)] {
    if (needs_policy && parts->policy.Get() == nullptr) {
      return absl::UnavailableError("no policy has come yet");
    }
    return ready();
  };
  CAPSTAN_ASSIGN_OR_RETURN(parts_->endpoint_server,
                           metrics::EndpointServer::Create(options, parts_->registry.get()));
  return absl::OkStatus();
}

absl::StatusOr<int> PartContext::WaitForSignal() {
  parts_->logger->Info("serving");
  const int signal = parts_->signals.Wait();
  // Asks the part's server, which its owner is about to drain.
  parts_->endpoint_server.reset();
  if (signal == kIdentityExpired) {
    const absl::Status expired =
        status::Error(absl::StatusCode::kUnauthenticated, "NO_IDENTITY",
                      "the SVID has expired and was not renewed; a new join token is needed");
    parts_->logger->Error("stopping", {{"error", expired}});
    return expired;
  }
  parts_->logger->Info("stopping", {{"signal", signal}});
  return signal;
}

}  // namespace capstan::serve
