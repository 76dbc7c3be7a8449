#include "services/credentials/server.h"

#include <unistd.h>

#include <atomic>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "libs/auth/denial_log.h"
#include "libs/auth/placement_verifier.h"
#include "libs/auth/policy.h"
#include "libs/auth/policy_access.h"
#include "libs/auth/policy_enforcer.h"
#include "libs/auth/refused_handshakes.h"
#include "libs/auth/spiffe_id.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/local_server.h"
#include "libs/rpc/or_else.h"
#include "libs/rpc/server.h"
#include "libs/rpc/x509.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/credentials/adapters/jose_jwt_keys.h"
#include "services/credentials/adapters/openid_server.h"
#include "services/credentials/adapters/openssl_secret_source.h"
#include "services/credentials/adapters/supervisor_channel.h"
#include "services/credentials/api/access_service.h"
#include "services/credentials/api/audit_head_service.h"
#include "services/credentials/api/audit_service.h"
#include "services/credentials/api/denial_service.h"
#include "services/credentials/api/identity_service.h"
#include "services/credentials/api/join_services.h"
#include "services/credentials/api/join_token.h"
#include "services/credentials/api/jwt_documents.h"
#include "services/credentials/api/policy_feed.h"
#include "services/credentials/api/policy_service.h"
#include "services/credentials/api/project_service.h"
#include "services/credentials/api/refusal_sink.h"
#include "services/credentials/api/token_service.h"
#include "services/credentials/engine.h"
#include "services/credentials/own_identity.h"
#include "services/credentials/trust_domain.h"

namespace capstan::credentials {
namespace {

constexpr absl::Duration kMinTtl = absl::Seconds(30);
constexpr absl::Duration kSupervisedTokenTtl = absl::Minutes(2);
constexpr absl::Duration kDenialFlushPeriod = absl::Minutes(1);

// Runs `task` on the strand and waits for it. False if the strand stops first.
template <typename Task>
bool RunOn(Strand* strand, Task task) {
  absl::Notification over;
  std::atomic<bool> ran = false;
  strand->Post(rpc::OrElse(
      [&] {
        task();
        ran = true;
        over.Notify();
      },
      [&] { over.Notify(); }));
  over.WaitForNotification();
  return ran;
}

absl::Status Stopped() { return absl::UnavailableError("The strand has stopped."); }

}  // namespace

// Everything the server is made of, in the order in which it is made; taken down in reverse.
class Server::Body {
 public:
  Body(Config config, Deps deps)
      : config_(std::move(config)),
        deps_(deps),
        connections_refused_(deps_.metrics->AddCounter(
            "person_connections_refused_total", "Connections refused at the people's socket.")) {}
  ~Body() {
    Drain(BootTime::InfinitePast());
    if (config_.supervisor_fd >= 0 && !supervisor_fd_taken_) close(config_.supervisor_fd);
  }

  absl::Status Start() {
    absl::Status opened = Open();
    if (status::Reason(opened) == "TRUST_DOMAIN_MADE_ELSEWHERE") {
      // Another replica had its first run at the same time: this one joins it.
      RunOn(deps_.strand, [this] {
        engine_.reset();
        jwt_keys_.reset();
        feed_.reset();
      });
      RunOn(deps_.io_strand, [] {});
      opened = Open();
    }
    CAPSTAN_RETURN_IF_ERROR(opened);
    CAPSTAN_RETURN_IF_ERROR(StartIdentity());
    CAPSTAN_RETURN_IF_ERROR(MakeHandlers());
    CAPSTAN_RETURN_IF_ERROR(StartServers());
    CAPSTAN_RETURN_IF_ERROR(StartLocal());
    serving_ = true;
    deps_.log->Info(
        "serving",
        {{"trust_domain", name_}, {"port", server_->port()}, {"join_port", join_server_->port()}});
    return absl::OkStatus();
  }

  void Drain(BootTime deadline) {
    if (std::exchange(drained_, true)) return;
    serving_ = false;
    supervisor_.reset();
    openid_.reset();
    if (people_ != nullptr) people_->Shutdown(absl::ZeroDuration());
    people_.reset();
    if (feed_ != nullptr) {
      RunOn(deps_.strand, [this] { feed_->EndAll(absl::UnavailableError("The server stops.")); });
    }
    const auto left = [&] {
      return std::max(absl::ZeroDuration(), deadline - deps_.clock->Read().boot);
    };
    if (join_server_ != nullptr) join_server_->Shutdown(left());
    if (server_ != nullptr) server_->Shutdown(left());
    join_server_.reset();
    {
      absl::MutexLock lock(&health_mutex_);
      server_.reset();
    }
    RunOn(deps_.io_strand, [this] { identity_keeper_.reset(); });
    if (!RunOn(deps_.strand, [this] { enforcer_.reset(); })) enforcer_.reset();
    // What it has counted goes to the engine.
    access_.reset();
    if (refused_handshakes_ != nullptr) refused_handshakes_->Close();
    connection_denials_.reset();
    if (engine_ == nullptr) return;
    auto stopped = std::make_shared<absl::Notification>();
    const bool stopping = RunOn(deps_.strand, [this, stopped] {
      if (flush_timer_ != 0) deps_.strand->Cancel(flush_timer_);
      flush_timer_ = 0;
      engine_->Stop([stopped] { stopped->Notify(); });
    });
    // The store may be stuck; its lease runs out by itself.
    if (stopping) stopped->WaitForNotificationWithTimeout(left());
    RunOn(deps_.strand, [this] {
      engine_.reset();
      jwt_keys_.reset();
      feed_.reset();
    });
    // A key that is being made refers to the key keeper.
    RunOn(deps_.io_strand, [] {});
  }

  int port() const { return server_->port(); }
  int join_port() const { return join_server_->port(); }
  int openid_port() const { return openid_ == nullptr ? 0 : openid_->port(); }
  const std::string& name() const { return name_; }
  const std::string& bundle_sha256() const { return bundle_sha256_; }
  std::shared_ptr<rpc::Identity> identity() const { return identity_; }
  absl::Status Ready() const {
    if (!serving_) return absl::UnavailableError("not serving");
    const auto policy = policy_.Get();
    if (policy == nullptr || policy->expires() <= deps_.clock->Read().boot) {
      return absl::UnavailableError("the store does not answer");
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Open() {
    CAPSTAN_ASSIGN_OR_RETURN(
        trust_domain_,
        OpenTrustDomain({.key_file = config_.key_file.empty()
                                         ? absl::StrCat(config_.data_folder, "/key_keeper.key")
                                         : config_.key_file,
                         .new_name = config_.trust_domain,
                         .admin_uid = config_.admin_uid},
                        deps_.store, &secrets_, deps_.clock->Read().wall));
    const v1::TrustDomainRecord& record = trust_domain_.record;
    name_ = record.name();
    bundle_sha256_ = rpc::BundleSha256({record.roots().begin(), record.roots().end()});
    return StartEngine();
  }

  // On the strand: whether callers should come here. Replicas are equal, so each that can act says
  // what elsewhere only a leader does.
  void SetServing(bool serving) {
    absl::MutexLock lock(&health_mutex_);
    store_answers_ = serving;
    if (server_ != nullptr) server_->SetServing(rpc::kLeaderHealth, serving);
  }

  absl::Status StartEngine() {
    Engine::Options options;
    options.core = config_.core;
    options.replica = config_.listen;
    options.first_run = trust_domain_.first_run;
    absl::Notification loaded;
    absl::Status result = Stopped();
    const bool ran = RunOn(deps_.strand, [&] {
      feed_ = std::make_unique<PolicyFeed>(deps_.strand, &policy_);
      jwt_keys_ = MakeJoseJwtKeys({.trust_domain = name_,
                                   .issuer = config_.issuer,
                                   .strand = deps_.strand,
                                   .io_strand = deps_.io_strand,
                                   .keeper = trust_domain_.keeper.get(),
                                   .secrets = &secrets_});
      engine_ = std::make_unique<Engine>(
          std::move(options),
          Engine::Deps{.strand = deps_.strand,
                       .store = deps_.store,
                       .signer = trust_domain_.signer.get(),
                       .jwt_keys = jwt_keys_.get(),
                       .log = deps_.log,
                       .metrics = deps_.metrics,
                       .on_policy =
                           [this](std::shared_ptr<const v1::PolicySnapshot> snapshot) {
                             SetServing(snapshot != nullptr);
                             feed_->Publish(std::move(snapshot));
                           },
                       .on_jwt_keys = [this](const JwtKeySet& keys) { documents_.Set(keys); }});
      engine_->Start([&](absl::Status status) {
        result = std::move(status);
        loaded.Notify();
      });
    });
    if (!ran) return Stopped();
    loaded.WaitForNotification();
    return result;
  }

  absl::Status StartIdentity() {
    absl::Notification issued;
    absl::Status result = Stopped();
    const bool ran = RunOn(deps_.io_strand, [&] {
      identity_keeper_ = std::make_unique<OwnIdentity>(OwnIdentity::Deps{
          .sink = engine_.get(),
          .secrets = &secrets_,
          .io_strand = deps_.io_strand,
          .log = deps_.log,
          .folder = absl::StrCat(config_.data_folder, "/identity"),
          .seed = static_cast<uint64_t>(deps_.clock->Read().boot.ToNanoseconds())});
      identity_keeper_->Start([&](absl::StatusOr<std::shared_ptr<rpc::Identity>> identity) {
        result = identity.status();
        if (identity.ok()) identity_ = *std::move(identity);
        issued.Notify();
      });
    });
    if (!ran) return Stopped();
    issued.WaitForNotification();
    return result;
  }

  absl::Status MakeHandlers() {
    refusals_ = std::make_unique<RefusalSink>(engine_.get());
    refused_handshakes_ = std::make_shared<auth::RefusedHandshakes>(refusals_.get(), deps_.clock,
                                                                    deps_.log, deps_.metrics);
    connection_denials_ = std::make_unique<auth::DenialLog>(refusals_.get());
    access_ = std::make_unique<auth::PolicyAccess>(
        name_, &policy_, deps_.clock, refusals_.get(),
        [calls = deps_.metrics->AddCounter("calls_refused_total",
                                           "Calls that the access rules refused")]() mutable {
          calls.Increment();
        });
    const auto& roots = trust_domain_.record.roots();
    placements_ = std::make_unique<auth::PlacementVerifier>(
        name_, [roots = std::vector<std::string>(roots.begin(), roots.end())] { return roots; });
    access_->VerifyPlacements(placements_.get());
    token_maker_ =
        std::make_unique<JoinTokenMaker>(engine_.get(), &secrets_, name_, bundle_sha256_);
    join_ = std::make_unique<JoinServiceHandlers>(engine_.get(), &secrets_, access_.get());
    join_tokens_ = std::make_unique<JoinTokenServiceHandlers>(token_maker_.get(), access_.get());
    v1::TrustBundle bundle;
    bundle.set_trust_domain(name_);
    *bundle.mutable_roots() = trust_domain_.record.roots();
    bundle.set_sequence(trust_domain_.record.bundle_sequence());
    identities_ = std::make_unique<IdentityServiceHandlers>(engine_.get(), &secrets_, access_.get(),
                                                            std::move(bundle));
    tokens_ = std::make_unique<TokenServiceHandlers>(
        TokenServiceHandlers::Deps{.sink = engine_.get(),
                                   .secrets = &secrets_,
                                   .access = access_.get(),
                                   .documents = &documents_,
                                   .trust_domain = name_,
                                   .default_ttl = config_.core.jwt_default_ttl,
                                   .max_ttl = config_.core.jwt_keys.max_token_ttl});
    CAPSTAN_ASSIGN_OR_RETURN(const std::string random, secrets_.Bytes(40));
    ProjectServiceHandlers::Deps project_deps{.sink = engine_.get(),
                                              .store = deps_.store,
                                              .access = access_.get(),
                                              .policy = &policy_,
                                              .trust_domain = name_,
                                              .page_token_key = random.substr(0, 32),
                                              .seed = 0};
    for (char byte : random.substr(32)) {
      project_deps.seed = project_deps.seed << 8 | static_cast<unsigned char>(byte);
    }
    projects_ = std::make_unique<ProjectServiceHandlers>(std::move(project_deps));
    policies_ = std::make_unique<PolicyServiceHandlers>(engine_.get(), deps_.strand, feed_.get(),
                                                        access_.get(), name_);
    audit_heads_ = std::make_unique<AuditHeadServiceHandlers>(
        AuditHeadServiceHandlers::Deps{.store = deps_.store,
                                       .access = access_.get(),
                                       .clock = deps_.clock,
                                       .audit = refusals_.get(),
                                       .identity = identity_});
    denials_ = std::make_unique<DenialServiceHandlers>(
        DenialServiceHandlers::Deps{.sink = engine_.get(),
                                    .store = deps_.store,
                                    .access = access_.get(),
                                    .trust_domain = name_,
                                    .page_token_key = random.substr(0, 32)});
    audit_ = std::make_unique<AuditServiceHandlers>(deps_.store, access_.get());
    caller_access_ = std::make_unique<AccessServiceHandlers>(access_.get(), &policy_);
    enforcer_ = std::make_unique<auth::PolicyEnforcer>(
        auth::PolicyEnforcer::Options(), auth::PolicyEnforcer::Deps{.holder = &policy_,
                                                                    .access = access_.get(),
                                                                    .strand = deps_.strand,
                                                                    .log = deps_.log,
                                                                    .metrics = deps_.metrics});
    RunOn(deps_.strand, [this] {
      enforcer_->Start();
      ArmFlush();
    });
    return absl::OkStatus();
  }

  absl::Status StartServers() {
    const absl::Time now = deps_.clock->Read().wall;
    rpc::ServerConfig config;
    config.address = config_.listen;
    config.credentials = rpc::MutualTlsServerCredentials(
        identity_, deps_.clock,
        [refused = refused_handshakes_](const absl::Status& why, absl::string_view claimed_id) {
          refused->Record(auth::RefusedHandshakes::Side::kServer, why, claimed_id);
        });
    config.services = {rpc::Registered<v1::JoinTokenService>(join_tokens_.get()),
                       rpc::Registered<v1::IdentityService>(identities_.get()),
                       rpc::Registered<v1::TokenService>(tokens_.get()),
                       rpc::Registered<v1::ProjectService>(projects_.get()),
                       rpc::Registered<v1::PolicyService>(policies_.get()),
                       rpc::Registered<v1::DenialService>(denials_.get()),
                       rpc::Registered<v1::AuditHeadService>(audit_heads_.get()),
                       rpc::Registered<v1::AuditService>(audit_.get()),
                       rpc::Registered<v1::AccessService>(caller_access_.get())};
    config.max_connection_age = rpc::ConnectionAge(*identity_->Get(), now);
    CAPSTAN_ASSIGN_OR_RETURN(auto server, rpc::Server::Start(config));
    {
      absl::MutexLock lock(&health_mutex_);
      server_ = std::move(server);
      server_->SetServing(rpc::kLeaderHealth, store_answers_);
    }
    rpc::ServerConfig join_config;
    join_config.address = config_.join_listen;
    join_config.credentials = rpc::JoinServerCredentials(identity_);
    join_config.services = {rpc::Registered<v1::JoinService>(join_.get())};
    // A stranger may hold a connection for a minute.
    join_config.max_concurrent_streams = 4;
    join_config.max_connection_age = absl::Minutes(1);
    CAPSTAN_ASSIGN_OR_RETURN(join_server_, rpc::Server::Start(join_config));
    return StartOpenId();
  }

  absl::Status StartOpenId() {
    if (config_.openid_listen.empty()) return absl::OkStatus();
    OpenIdServer::Options options;
    options.listen = config_.openid_listen;
    options.issuer = config_.issuer;
    options.identity = identity_;
    options.keys = [this] {
      const auto documents = documents_.Get();
      return documents == nullptr ? OpenIdKeys()
                                  : OpenIdKeys{documents->openid_keys, documents->refresh_hint};
    };
    CAPSTAN_ASSIGN_OR_RETURN(openid_, OpenIdServer::Start(std::move(options)));
    deps_.log->Info("serving OpenID discovery",
                    {{"issuer", config_.issuer}, {"port", openid_->port()}});
    return absl::OkStatus();
  }

  absl::Status StartLocal() {
    if (!config_.person_socket.empty()) {
      CAPSTAN_ASSIGN_OR_RETURN(
          people_, rpc::LocalServer::Start(
                       config_.person_socket,
                       [this](uid_t uid) -> absl::StatusOr<rpc::LocalServices> {
                         auto handlers = std::make_shared<PersonServiceHandlers>(
                             engine_.get(), &secrets_, access_.get(), uid);
                         return rpc::LocalServices{
                             .services = {rpc::Registered<v1::PersonService>(handlers.get())},
                             .owner = handlers};
                       },
                       [this](const absl::Status& why) {
                         connections_refused_.Increment();
                         RecordRefusedConnection(why);
                       }));
    }
    if (config_.supervisor_fd >= 0) {
      supervisor_fd_taken_ = true;
      CAPSTAN_ASSIGN_OR_RETURN(
          supervisor_,
          SupervisorChannel::Start(
              {.fd = config_.supervisor_fd,
               .paths = {config_.supervised_paths.begin(), config_.supervised_paths.end()},
               .ready = absl::StrCat("ready ", name_, " ", bundle_sha256_, " ", server_->port(),
                                     " ", join_server_->port()),
               .make_token = [this](const std::string& path,
                                    absl::AnyInvocable<void(absl::StatusOr<std::string>)> done) {
                 token_maker_->Make(
                     kSupervisor, path, kSupervisedTokenTtl,
                     [done = std::move(done)](absl::StatusOr<v1::JoinToken> token) mutable {
                       if (!token.ok()) return done(token.status());
                       done(token->token());
                     });
               }}));
    }
    return absl::OkStatus();
  }

  // For refusals before there is a call; repeats are folded.
  void RecordRefusedConnection(const absl::Status& why) {
    connection_denials_->Record({.principal = kAnonymous,
                                 .act = "connect-person-socket",
                                 .resource = "",
                                 .outcome_code = static_cast<int>(why.code()),
                                 .message = std::string(why.message()),
                                 .repeats = 0},
                                deps_.clock->Read().boot);
  }

  void ArmFlush() {
    flush_timer_ = deps_.strand->RunAfter(kDenialFlushPeriod, [this] {
      flush_timer_ = 0;
      if (access_ == nullptr) return;
      access_->FlushDenials();
      refused_handshakes_->Flush();
      connection_denials_->Flush(deps_.clock->Read().boot);
      ArmFlush();
    });
  }

  const Config config_;
  const Deps deps_;
  metrics::Counter connections_refused_;
  OpenSslSecretSource secrets_;
  TrustDomain trust_domain_;
  std::string name_;
  std::string bundle_sha256_;
  auth::PolicyHolder policy_;
  JwtDocumentHolder documents_;
  // These live on the strand.
  std::unique_ptr<PolicyFeed> feed_;
  std::unique_ptr<JwtKeys> jwt_keys_;
  std::unique_ptr<Engine> engine_;
  // Lives on the I/O strand.
  std::unique_ptr<OwnIdentity> identity_keeper_;
  std::shared_ptr<rpc::Identity> identity_;
  std::unique_ptr<RefusalSink> refusals_;
  // Shared with what gRPC keeps of the server's credentials.
  std::shared_ptr<auth::RefusedHandshakes> refused_handshakes_;
  std::unique_ptr<auth::DenialLog> connection_denials_;
  std::unique_ptr<auth::PlacementVerifier> placements_;
  std::unique_ptr<auth::PolicyAccess> access_;
  // Lives on the strand.
  std::unique_ptr<auth::PolicyEnforcer> enforcer_;
  std::unique_ptr<JoinTokenMaker> token_maker_;
  std::unique_ptr<JoinServiceHandlers> join_;
  std::unique_ptr<JoinTokenServiceHandlers> join_tokens_;
  std::unique_ptr<IdentityServiceHandlers> identities_;
  std::unique_ptr<TokenServiceHandlers> tokens_;
  std::unique_ptr<ProjectServiceHandlers> projects_;
  std::unique_ptr<PolicyServiceHandlers> policies_;
  std::unique_ptr<DenialServiceHandlers> denials_;
  std::unique_ptr<AuditHeadServiceHandlers> audit_heads_;
  std::unique_ptr<AuditServiceHandlers> audit_;
  std::unique_ptr<AccessServiceHandlers> caller_access_;
  Strand::TimerId flush_timer_ = 0;
  // The server's own methods are called without it: only the strand's use may meet its end.
  absl::Mutex health_mutex_;
  bool store_answers_ ABSL_GUARDED_BY(health_mutex_) = false;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<rpc::Server> join_server_;
  std::unique_ptr<OpenIdServer> openid_;
  std::unique_ptr<rpc::LocalServer> people_;
  std::unique_ptr<SupervisorChannel> supervisor_;
  bool supervisor_fd_taken_ = false;
  std::atomic<bool> serving_ = false;
  bool drained_ = false;
};

absl::StatusOr<std::unique_ptr<Server>> Server::Create(Config config, Deps deps) {
  status::FieldErrors errors;
  if (config.data_folder.empty()) errors.Add("data_folder", "is required");
  if (!config.trust_domain.empty() && !auth::IsTrustDomain(config.trust_domain)) {
    errors.Add("trust_domain", "expected lower-case letters, digits, `.`, `-` and `_`");
  }
  const auto check_ttl = [&errors](absl::string_view field, absl::Duration ttl) {
    if (ttl < kMinTtl || ttl > absl::Hours(24 * 30)) {
      errors.Add(field, absl::StrCat("is ", absl::FormatDuration(ttl), "; expected 30s to 720h"));
    }
  };
  check_ttl("svid_ttl", config.core.svid_ttl);
  check_ttl("task_svid_ttl", config.core.task_svid_ttl);
  check_ttl("person_svid_ttl", config.core.person_svid_ttl);
  if (!config.issuer.empty()) {
    const absl::Status issuer = CheckIssuer(config.issuer);
    if (!issuer.ok()) errors.Add("issuer", issuer.message());
  } else if (!config.openid_listen.empty()) {
    errors.Add("issuer", "is required where openid_listen is set");
  }
  const JwtKeyConfig& keys = config.core.jwt_keys;
  if (keys.publish_before < absl::Seconds(1) || keys.rotate_after <= keys.publish_before) {
    errors.Add("jwt_keys", "expected rotate_after longer than publish_before, that at least 1s");
  }
  for (const std::string& path : config.supervised_paths) {
    if (!auth::SpiffeId::ParsePath("x", path).ok()) {
      errors.Add("supervised_paths", absl::StrCat("holds `", path, "`, which is no identity's"));
    }
  }
  if (!errors.ok()) return errors.ToStatus();
  return std::unique_ptr<Server>(new Server(std::make_unique<Body>(std::move(config), deps)));
}

Server::Server(std::unique_ptr<Body> body) : body_(std::move(body)) {}
Server::~Server() = default;
absl::Status Server::Start() { return body_->Start(); }
void Server::Drain(BootTime deadline) { body_->Drain(deadline); }
int Server::port() const { return body_->port(); }
int Server::join_port() const { return body_->join_port(); }
int Server::openid_port() const { return body_->openid_port(); }
const std::string& Server::trust_domain() const { return body_->name(); }
std::shared_ptr<rpc::Identity> Server::identity() const { return body_->identity(); }
const std::string& Server::bundle_sha256() const { return body_->bundle_sha256(); }
absl::Status Server::Ready() const { return body_->Ready(); }

}  // namespace capstan::credentials
