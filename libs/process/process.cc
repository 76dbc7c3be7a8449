#include "libs/process/process.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "google/protobuf/util/message_differencer.h"
#include "libs/audit/audit_file.h"
#include "libs/audit/audit_log.h"
#include "libs/audit/metered_sink.h"
#include "libs/audit/signed_head.h"
#include "libs/auth/join.h"
#include "libs/auth/placement_verifier.h"
#include "libs/auth/policy.h"
#include "libs/auth/policy_access.h"
#include "libs/auth/policy_enforcer.h"
#include "libs/auth/policy_watcher.h"
#include "libs/auth/refused_handshakes.h"
#include "libs/auth/svid_renewer.h"
#include "libs/lifecycle/signal_thread.h"
#include "libs/metrics/endpoint_server.h"
#include "libs/process/audit_head_reporter.h"
#include "libs/process/loopback_network.h"
#include "libs/process/open_store.h"
#include "libs/process/own_metrics.h"
#include "libs/process/process_log.h"
#include "libs/process/shared_secret.h"
#include "libs/process/stop_reasons.h"
#include "libs/process/stop_signal.h"
#include "libs/process/target_reporter.h"
#include "libs/process/token_file.h"
#include "libs/random/random.h"
#include "libs/rpc/access_log.h"
#include "libs/rpc/admission.h"
#include "libs/rpc/call.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/observation.h"
#include "libs/rpc/replicas.h"
#include "libs/rpc/server.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/store/metered_store.h"
#include "libs/strand/thread_strand.h"
#include "libs/trace/tracing.h"
#include "proto/capstan/credentials/v1/audit_head.grpc.pb.h"
#include "proto/capstan/credentials/v1/join_service.grpc.pb.h"
#include "proto/capstan/credentials/v1/project.grpc.pb.h"
#include "proto/capstan/telemetry/v1/scrape_target.pb.h"

namespace capstan::process {
namespace {

constexpr absl::Duration kFlushDenialsEvery = absl::Minutes(1);
// For the signature of the last audit records when a process ends, and of others.
constexpr absl::Duration kLastHead = absl::Seconds(2);
// For the last spans.
constexpr absl::Duration kLastSpans = absl::Seconds(2);
constexpr int kAccessLinesPerSecond = 200;
constexpr absl::Duration kHeadDeadline = absl::Seconds(10);

absl::Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return ErrnoStatus(errno, "making", path);
}

}  // namespace

// In the order of making.
struct Process::Parts {
  config::v1::Process config;
  Kind kind;
  std::string advertised;
  const Clock* clock = nullptr;
  std::function<absl::StatusOr<config::v1::Process>()> reload;
  StopReasons stop_reasons;
  std::unique_ptr<lifecycle::SignalThread> signal_thread;
  std::unique_ptr<ProcessLog> log_sink;
  std::unique_ptr<log::Logger> logger;
  std::unique_ptr<metrics::Registry> registry;
  // `capstan_process_…`: what every process has.
  std::unique_ptr<metrics::Registry> own_registry;
  std::unique_ptr<OwnMetrics> own_metrics;
  std::random_device seeds;
  std::shared_ptr<rpc::AccessLog> access_log;
  std::shared_ptr<rpc::Admission> admission;
  std::unique_ptr<trace::Tracing> tracing;
  std::shared_ptr<rpc::Identity> identity;
  std::unique_ptr<audit::AuditLog> audit_log;
  std::unique_ptr<audit::MeteredSink> audit;
  // Shared with the transport, which may hold it for longer than the process lives.
  std::shared_ptr<auth::RefusedHandshakes> refused;
  auth::PolicyHolder policy;
  std::unique_ptr<auth::PlacementVerifier> placements;
  std::unique_ptr<auth::PolicyAccess> access;
  std::unique_ptr<Random> auth_random;
  std::unique_ptr<credentials::v1::PolicyService::Stub> policy_stub;
  std::unique_ptr<credentials::v1::IdentityService::Stub> identity_stub;
  // Watches the policy and renews the SVID; apart from the engine's strand, so that neither waits
  // for the other.
  std::unique_ptr<ThreadStrand> auth_strand;
  std::unique_ptr<auth::PolicyEnforcer> enforcer;
  std::unique_ptr<auth::PolicyWatcher> watcher;
  std::unique_ptr<auth::SvidRenewer> renewer;
  std::unique_ptr<credentials::v1::AuditHeadService::Stub> audit_head_stub;
  std::unique_ptr<AuditHeadReporter> head_reporter;
  // SHA-256 of the audit chain's first record; empty before it is known.
  std::string first_record;
  std::unique_ptr<ThreadStrand> strand;
  std::unique_ptr<store::Store> store;
  std::unique_ptr<metrics::EndpointServer> endpoint_server;
  // Both on report_strand().
  std::unique_ptr<Random> report_random;
  std::unique_ptr<TargetReporter> reporter;

  // credentials has no other than its engine's.
  Strand* report_strand() { return auth_strand != nullptr ? auth_strand.get() : strand.get(); }

  // Nothing runs on the strands any more when what they touch goes.
  ~Parts() {
    if (strand != nullptr) strand->Stop();
    if (auth_strand != nullptr) auth_strand->Stop();
    if (refused != nullptr) refused->Close();
    // gRPC may hold the last calls for longer.
    rpc::SetObservation({});
    rpc::SetAdmission(nullptr);
    if (admission != nullptr) admission->Close();
    if (access_log != nullptr) access_log->Close();
  }

  uint64_t NewSeed() { return uint64_t{seeds()} << 32 | seeds(); }

  rpc::RefusalObserver Observe(auth::RefusedHandshakes::Side side) const {
    // credentials counts its own.
    if (refused == nullptr) return nullptr;
    return [refused = refused, side](const absl::Status& why, absl::string_view spiffe_id) {
      refused->Record(side, why, spiffe_id);
    };
  }
  std::shared_ptr<grpc::ChannelCredentials> ChannelCredentials(
      absl::string_view identity_path) const {
    return rpc::MutualTlsChannelCredentials(identity, clock, identity_path,
                                            Observe(auth::RefusedHandshakes::Side::kClient));
  }

  void FlushDenials() {
    access->FlushDenials();
    refused->Flush();
    auth_strand->RunAfter(kFlushDenialsEvery, [this] { FlushDenials(); });
  }

  // Before any server or channel is made.
  absl::Status Observe();
  absl::Status Join(const StartOptions& options);
  absl::Status StartAuth();
  void StartReporting();
  std::string AuditFile() const { return absl::StrCat(config.data_folder(), "/audit.chain"); }
  // On the auth strand.
  void ReportHead(const audit::ChainHead& head, absl::AnyInvocable<void(absl::Status)> done);
  // Has what was audited last signed, if that is quick.
  void CloseAudit();
  void Reload();
};

namespace {

// CheckProcess has made sure that the addresses make a target.
std::string TargetOf(const config::v1::Peer& peer) {
  return rpc::ReplicaTarget(
             std::vector<std::string>(peer.addresses().begin(), peer.addresses().end()))
      .value_or("");
}

}  // namespace

Process::Process(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Process::~Process() {
  parts_->endpoint_server.reset();
  parts_->CloseAudit();
  parts_->tracing->Close(kLastSpans);
  parts_->logger->Info("stopped");
}

absl::StatusOr<std::unique_ptr<Process>> Process::Open(const config::v1::Process& config,
                                                       const Kind& kind,
                                                       const StartOptions& options,
                                                       const Clock* clock) {
#ifdef NDEBUG
  // Debian builds Abseil with its search for deadlocks, which every lock of a second mutex then
  // pays for, also in programs built for use. The tests' builds keep it.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
  auto parts = std::make_unique<Parts>();
  parts->config = config;
  parts->kind = kind;
  parts->advertised = config.advertise().empty() ? config.listen() : config.advertise();
  parts->clock = clock;
  parts->reload = options.reload;
  CAPSTAN_ASSIGN_OR_RETURN(parts->signal_thread, lifecycle::SignalThread::Create(
                                                     {SIGTERM, SIGINT, SIGHUP, kStopTasksSignal},
                                                     [reasons = &parts->stop_reasons](int signal) {
                                                       reasons->Add(signal);
                                                     }));
  // A peer that is gone shows as an error of the write, not as a signal.
  signal(SIGPIPE, SIG_IGN);
  CAPSTAN_RETURN_IF_ERROR(MakeFolder(config.data_folder()));
  CAPSTAN_ASSIGN_OR_RETURN(parts->log_sink, ProcessLog::Open(config.log()));
  parts->logger = std::make_unique<log::Logger>(
      kind.name, clock, parts->log_sink.get(),
      // The sink decides where the level may change; else records below it are not even made.
      parts->reload != nullptr ? log::Level::kDebug : parts->log_sink->level());
  parts->logger->Info("starting", {{"pid", getpid()}});
  parts->registry = std::make_unique<metrics::Registry>(kind.name);
  parts->own_registry = std::make_unique<metrics::Registry>("process");
  parts->own_metrics = std::make_unique<OwnMetrics>(clock, parts->own_registry.get());
  const absl::Status observed = parts->Observe();
  if (!observed.ok()) {
    parts->logger->Error("cannot start", {{"error", observed}});
    return observed;
  }
  if (kind.joins) {
    const absl::Status joined = parts->Join(options);
    if (!joined.ok()) {
      parts->logger->Error("cannot start", {{"error", joined}});
      return joined;
    }
    const absl::Status auth = parts->StartAuth();
    if (!auth.ok()) {
      parts->logger->Error("cannot start", {{"error", auth}});
      return auth;
    }
  }
  parts->strand = std::make_unique<ThreadStrand>(kind.name, clock);
  if (kind.has_store) {
    absl::StatusOr<std::unique_ptr<store::Store>> store =
        OpenStore(config.store(), kind.name, config.data_folder(), parts->strand.get(),
                  {.seed = parts->NewSeed(),
                   .on_replaced = [reasons = &parts->stop_reasons](const absl::Status& why) {
                     reasons->End(why);
                   }});
    if (!store.ok()) {
      parts->logger->Error("cannot start", {{"error", store.status()}});
      return store.status();
    }
    parts->store =
        std::make_unique<store::MeteredStore>(*std::move(store), clock, parts->own_registry.get());
  }
  return std::unique_ptr<Process>(new Process(std::move(parts)));
}

absl::Status Process::Parts::Observe() {
  const config::v1::AccessLog& lines = config.monitoring().access_log();
  if (lines.calls() == config::v1::AccessLog::CALLS_FAILED ||
      lines.calls() == config::v1::AccessLog::CALLS_ALL) {
    rpc::AccessLog::Options options;
    options.failed_only = lines.calls() == config::v1::AccessLog::CALLS_FAILED;
    options.max_lines_per_second =
        lines.max_lines_per_second() > 0 ? lines.max_lines_per_second() : kAccessLinesPerSecond;
    access_log = std::make_shared<rpc::AccessLog>(options, clock, logger->With("access"),
                                                  own_registry.get());
  }
  CAPSTAN_ASSIGN_OR_RETURN(
      tracing, trace::Tracing::Open(
                   config.monitoring().traces(),
                   {.clock = clock,
                    .metrics = own_registry.get(),
                    .log = logger.get(),
                    .seed = NewSeed(),
                    .resource = {{"service.namespace", "capstan"},
                                 {"service.name", kind.name},
                                 {"service.instance.id",
                                  advertised.empty() ? config.metrics_listen() : advertised}}}));
  rpc::SetObservation({.access_log = access_log, .tracer = tracing->tracer()});
  admission = rpc::Admission::Make({}, own_registry.get());
  rpc::SetAdmission(admission);
  return absl::OkStatus();
}

absl::Status Process::Parts::Join(const StartOptions& options) {
  auth::ObtainOptions obtain;
  obtain.folder = absl::StrCat(config.data_folder(), "/identity");
  obtain.join_address = config.joining().address();
  obtain.token_fd = options.join_token_fd;
  const std::string& token_file = config.joining().token_file();
  if (obtain.token_fd < 0) {
    CAPSTAN_ASSIGN_OR_RETURN(UniqueFd fd, OpenTokenFile(token_file));
    obtain.token_fd = fd.Release();
  }
  CAPSTAN_ASSIGN_OR_RETURN(identity, auth::ObtainIdentity(obtain, clock));
  // It serves once, so that it is of no use any more to anybody.
  if (!token_file.empty()) unlink(token_file.c_str());
  CAPSTAN_ASSIGN_OR_RETURN(audit_log, audit::AuditLog::Open(AuditFile(), kind.name, clock));
  audit = std::make_unique<audit::MeteredSink>(audit_log.get(), own_registry.get());
  return absl::OkStatus();
}

absl::Status Process::Parts::StartAuth() {
  refused =
      std::make_shared<auth::RefusedHandshakes>(audit.get(), clock, logger.get(), registry.get());
  access = std::make_unique<auth::PolicyAccess>(
      identity->trust_domain(), &policy, clock, audit.get(),
      [calls = registry->AddCounter("calls_refused_total",
                                    "Calls that the access rules refused")]() mutable {
        calls.Increment();
      });
  placements = std::make_unique<auth::PlacementVerifier>(
      identity->trust_domain(), [identity = identity] { return identity->Get()->svid.bundle; });
  access->VerifyPlacements(placements.get());
  const auto channel =
      rpc::DialLeader(TargetOf(config.credentials()), ChannelCredentials("/svc/credentials"));
  policy_stub = credentials::v1::PolicyService::NewStub(channel);
  identity_stub = credentials::v1::IdentityService::NewStub(channel);
  auth_random = std::make_unique<Random>(NewSeed());
  auth_strand =
      std::make_unique<ThreadStrand>(absl::StrCat(kind.name.substr(0, 9), ".auth"), clock);
  watcher = std::make_unique<auth::PolicyWatcher>(policy_stub.get(), &policy, auth_strand.get(),
                                                  auth_random.get());
  renewer = std::make_unique<auth::SvidRenewer>(
      identity, auth_strand.get(), auth_random.get(),
      auth::RenewOver(identity_stub.get(), auth_strand.get()),
      [this](const absl::Status& renewed) {
        own_metrics->CountRenewal(renewed.ok());
        if (renewed.ok()) {
          logger->Info("SVID renewed", {{"not_after", identity->Get()->not_after}});
        } else {
          logger->Warning("SVID not renewed", {{"error", renewed}});
        }
      },
      [this] { stop_reasons.Add(StopReasons::kIdentityExpired); });
  if (kind.watches_policy) {
    enforcer = std::make_unique<auth::PolicyEnforcer>(
        auth::PolicyEnforcer::Options{.file = absl::StrCat(config.data_folder(), "/deny_list")},
        auth::PolicyEnforcer::Deps{.holder = &policy,
                                   .access = access.get(),
                                   .strand = auth_strand.get(),
                                   .log = logger.get(),
                                   .metrics = registry.get()});
    CAPSTAN_RETURN_IF_ERROR(enforcer->LoadKept());
  }
  audit_head_stub = credentials::v1::AuditHeadService::NewStub(channel);
  head_reporter = std::make_unique<AuditHeadReporter>(
      AuditHeadReporter::Options(),
      AuditHeadReporter::Deps{
          .strand = auth_strand.get(),
          .log = logger.get(),
          .metrics = registry.get(),
          .head = [this] { return audit_log->head(); },
          .report =
              [this](const audit::ChainHead& head, absl::AnyInvocable<void(absl::Status)> done) {
                ReportHead(head, std::move(done));
              }});
  auth_strand->Post([this] {
    head_reporter->Start();
    if (kind.watches_policy) {
      enforcer->Start();
      watcher->Start();
    }
    renewer->Start();
    FlushDenials();
  });
  return absl::OkStatus();
}

void Process::Parts::ReportHead(const audit::ChainHead& head,
                                absl::AnyInvocable<void(absl::Status)> done) {
  if (first_record.empty()) {
    const absl::StatusOr<std::string> first = audit::FirstRecordHash(AuditFile());
    if (!first.ok()) return done(first.status());
    first_record = *first;
  }
  credentials::v1::ReportAuditHeadRequest request;
  request.set_chain(kind.name);
  request.set_first_hash(first_record);
  request.set_sequence(head.sequence);
  request.set_hash(head.hash);
  rpc::CallUnary(
      audit_head_stub.get(),
      &credentials::v1::AuditHeadService::StubInterface::async_interface::ReportAuditHead,
      std::move(request), {.deadline = kHeadDeadline}, auth_strand.get(),
      [done =
           std::move(done)](const absl::StatusOr<credentials::v1::SignedAuditHead>& head) mutable {
        done(head.status());
      });
}

void Process::Parts::CloseAudit() {
  if (head_reporter == nullptr) return;
  auto closed = std::make_shared<absl::Notification>();
  auth_strand->Post([this, closed] { head_reporter->Close([closed] { closed->Notify(); }); });
  closed->WaitForNotificationWithTimeout(kLastHead);
}

void Process::Parts::Reload() {
  if (reload == nullptr) {
    logger->Info("SIGHUP: nothing to read again, as this process has no file of its own");
    return;
  }
  const absl::StatusOr<config::v1::Process> read = reload();
  if (!read.ok()) {
    logger->Error("the configuration is wrong and the old one stays", {{"error", read.status()}});
    return;
  }
  config::v1::Process taken_up = config;
  taken_up.mutable_log()->set_level(read->log().level());
  log_sink->SetLevel(read->log().level());
  config = taken_up;
  if (google::protobuf::util::MessageDifferencer::Equals(taken_up, *read)) {
    logger->Info("configuration read again");
    return;
  }
  std::string differences;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&differences);
  differencer.Compare(taken_up, *read);
  logger->Warning("configuration read again; what changed besides log.level waits for a restart",
                  {{"changes", differences}});
}

const config::v1::Process& Process::config() const { return parts_->config; }
const std::string& Process::advertised() const { return parts_->advertised; }
const Clock* Process::clock() const { return parts_->clock; }
audit::AuditSink* Process::audit() { return parts_->audit.get(); }
log::Logger* Process::logger() { return parts_->logger.get(); }
metrics::Registry* Process::registry() { return parts_->registry.get(); }
trace::Sink* Process::spans() { return parts_->tracing->tracer().get(); }
Strand* Process::strand() { return parts_->strand.get(); }
store::Store* Process::store() { return parts_->store.get(); }
bool Process::owns_store() const { return !parts_->config.store().has_etcd(); }
auth::Access* Process::access() { return parts_->access.get(); }
std::shared_ptr<rpc::Identity> Process::identity() { return parts_->identity; }

std::shared_ptr<grpc::ServerCredentials> Process::server_credentials() {
  return rpc::MutualTlsServerCredentials(parts_->identity, parts_->clock,
                                         parts_->Observe(auth::RefusedHandshakes::Side::kServer));
}

absl::Duration Process::max_connection_age() const {
  return rpc::ConnectionAge(*parts_->identity->Get(), parts_->clock->Read().wall);
}

std::shared_ptr<grpc::Channel> Process::ChannelTo(const config::v1::Peer& peer,
                                                  absl::string_view identity_path) {
  return rpc::Dial(TargetOf(peer), parts_->ChannelCredentials(identity_path));
}

std::shared_ptr<grpc::Channel> Process::ChannelToLeader(const config::v1::Peer& peer,
                                                        absl::string_view identity_path) {
  return rpc::DialLeader(TargetOf(peer), parts_->ChannelCredentials(identity_path));
}

absl::StatusOr<std::string> Process::SharedSecret(absl::string_view name) {
  return ShareSecret(parts_->store.get(), parts_->strand.get(),
                     absl::StrCat("/capstan/", parts_->kind.name, "/secrets/", name));
}

uint64_t Process::NewSeed() { return parts_->NewSeed(); }

void Process::AdoptIdentity(std::shared_ptr<rpc::Identity> identity) {
  parts_->identity = std::move(identity);
}

void Process::Parts::StartReporting() {
  const config::v1::Peer& inventory = config.monitoring().inventory();
  if (inventory.addresses().empty() || identity == nullptr) return;
  telemetry::v1::ReportScrapeTargetRequest request;
  const std::string& advertise = config.monitoring().metrics_advertise();
  const std::string& listen = config.metrics_listen();
  request.set_metrics_address(!advertise.empty() ? advertise
                                                 : absl::StrCat(listen.substr(0, listen.rfind(':')),
                                                                ":", endpoint_server->port()));
  request.set_instance(advertised);
  request.set_loopback_network(LoopbackNetwork());
  // Not one channel for all: each replica has a list of its own.
  std::vector<std::shared_ptr<grpc::Channel>> replicas;
  for (const std::string& address : inventory.addresses()) {
    replicas.push_back(rpc::Dial(address, ChannelCredentials("/svc/telemetry")));
  }
  report_random = std::make_unique<Random>(NewSeed());
  report_strand()->Post([this, replicas = std::move(replicas), request = std::move(request)] {
    reporter = std::make_unique<TargetReporter>(
        replicas, request, report_strand(), report_random.get(), logger.get(), own_registry.get());
    reporter->Start();
  });
}

absl::Status Process::ServeMetrics(
    std::function<absl::Status()> ready,
    std::map<std::string, std::function<metrics::Page(const std::string& client)>> pages) {
  metrics::EndpointServer::Options options;
  options.pages = std::move(pages);
  options.more_registries = {parts_->own_registry.get()};
  options.before_scrape = [parts = parts_.get()] {
    const auto svid = parts->identity == nullptr ? nullptr : parts->identity->Get();
    parts->own_metrics->Update(svid == nullptr ? absl::InfinitePast() : svid->not_before,
                               svid == nullptr ? absl::InfinitePast() : svid->not_after);
  };
  const std::string& address = parts_->config.metrics_listen();
  const size_t colon = address.rfind(':');
  options.host = address.substr(0, colon);
  options.port = std::stoi(address.substr(colon + 1));
  const bool needs_policy = parts_->kind.joins && parts_->kind.watches_policy;
  options.ready = [parts = parts_.get(), needs_policy, ready = std::move(ready)] {
    const auto policy = needs_policy ? parts->policy.Get() : nullptr;
    // A deny list of an earlier run is not what people can be served by.
    if (needs_policy && (policy == nullptr || policy->expires() == BootTime::InfinitePast())) {
      return absl::UnavailableError("no policy has come yet");
    }
    return ready();
  };
  CAPSTAN_ASSIGN_OR_RETURN(parts_->endpoint_server,
                           metrics::EndpointServer::Create(options, parts_->registry.get()));
  parts_->StartReporting();
  return absl::OkStatus();
}

void Process::End(absl::Status why) { parts_->stop_reasons.End(std::move(why)); }

absl::StatusOr<int> Process::WaitForSignal() {
  parts_->logger->Info("serving");
  int signal = parts_->stop_reasons.Wait();
  for (; signal == SIGHUP; signal = parts_->stop_reasons.Wait()) parts_->Reload();
  // Asks the server, which its owner is about to drain.
  parts_->endpoint_server.reset();
  if (signal == StopReasons::kEnded) {
    const absl::Status why = parts_->stop_reasons.why();
    parts_->logger->Error("stopping", {{"error", why}});
    return why;
  }
  if (signal == StopReasons::kIdentityExpired) {
    const absl::Status expired =
        status::Error(absl::StatusCode::kUnauthenticated, "NO_IDENTITY",
                      "the SVID has expired and was not renewed; a new join token is needed");
    parts_->logger->Error("stopping", {{"error", expired}});
    return expired;
  }
  parts_->logger->Info("stopping", {{"signal", signal}});
  return signal;
}

}  // namespace capstan::process
