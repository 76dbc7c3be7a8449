#include "integration/simulation/credentials_actor.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "services/credentials/core/credentials_core.h"
#include "services/credentials/core/serial.h"
#include "services/credentials/core/store_key.h"

namespace capstan::simulation {
namespace {

using credentials::Answer;
using credentials::Event;

// Short lives, so that renewals and rotations fall into a scenario.
credentials::CoreConfig Config() {
  credentials::CoreConfig config;
  config.task_svid_ttl = absl::Minutes(3);
  config.jwt_default_ttl = absl::Minutes(1);
  config.jwt_keys = {.rotate_after = absl::Minutes(4),
                     .publish_before = absl::Minutes(1),
                     .max_token_ttl = absl::Minutes(1)};
  return config;
}

}  // namespace

CredentialsWitness::Lives CredentialsActor::Lives() {
  const credentials::CoreConfig config = Config();
  return {.certificate = config.svid_ttl,
          .task_certificate = config.task_svid_ttl,
          .token = config.jwt_keys.max_token_ttl,
          .publish_before = config.jwt_keys.publish_before};
}

CredentialsActor::CredentialsActor(Network* network, const MachineClock* clock, std::string name,
                                   StoreServer* server, CredentialsWitness* witness,
                                   const Mutants* mutants)
    : Process(&network->world(), std::move(name), clock),
      network_(network),
      server_(server),
      witness_(witness),
      mutants_(mutants) {}

void CredentialsActor::OnStart() {
  witness_->Started(name());
  strand_ = std::make_unique<ProcessStrand>(this);
  logger_ = std::make_unique<log::Logger>("credentials", &strand_->clock(), &no_log_);
  metrics_ = std::make_unique<metrics::Registry>("credentials");
  store_ = std::make_unique<RemoteStore>(network_, this, server_, mutants_);
  signer_ = std::make_unique<Signer>(this);
  jwt_keys_ = std::make_unique<JwtKeys>(this);
  credentials::FirstRun first;
  first.trust_domain.set_schema(credentials::kSchema);
  first.trust_domain.set_name(kDomain);
  first.admin_uid = 1000;
  first.project_uid = world().random().Uuid4();
  engine_ = std::make_unique<credentials::Engine>(
      credentials::Engine::Options{.core = Config(), .replica = name(), .first_run = first},
      credentials::Engine::Deps{
          .strand = strand_.get(),
          .store = store_.get(),
          .signer = signer_.get(),
          .jwt_keys = jwt_keys_.get(),
          .log = logger_.get(),
          .metrics = metrics_.get(),
          .on_policy =
              [this](const std::shared_ptr<const credentials::v1::PolicySnapshot>& policy) {
                world().Log(name(), policy == nullptr
                                        ? "knows no policy"
                                        : absl::StrCat("publishes policy ", policy->revision()));
                if (policy != nullptr) witness_->Published(name(), *policy);
              },
          .on_jwt_keys =
              [this](const credentials::JwtKeySet& keys) {
                world().Log(name(), absl::StrCat("publishes keys ", keys.sequence));
                witness_->Published(name(), keys);
              }});
  engine_->Start([this](const absl::Status& loaded) {
    world().Log(name(), absl::StrCat("has loaded: ", absl::StatusCodeToString(loaded.code())));
  });
}

void CredentialsActor::OnCrash() {
  engine_.reset();
  jwt_keys_.reset();
  signer_.reset();
  store_.reset();
  metrics_.reset();
  logger_.reset();
  strand_.reset();
}

std::string CredentialsActor::Serial() {
  Random& random = world().random();
  if (!serials_.empty() && random.OneIn(30)) return serials_[random.Below(serials_.size())];
  std::string bytes;
  for (size_t i = 0; i < credentials::kSerialBytes; ++i) {
    bytes.push_back(static_cast<char>(random.Below(256)));
  }
  serials_.push_back(credentials::SerialFrom(bytes));
  return serials_.back();
}

void CredentialsActor::Ask(Event event, Reply reply) {
  // As placement_verifier.h has it: what was not placed on the Node ends before the engine.
  const auto foreign = [this](const auto& ask) {
    return !mutants_->grants_unchecked &&
           !witness_->IsPlaced(ask.task.ToString(), ask.node.ToString());
  };
  const auto* svid = std::get_if<credentials::IssueTaskSvid>(&event);
  const auto* jwt = std::get_if<credentials::IssueTaskJwt>(&event);
  if ((svid != nullptr && foreign(*svid)) || (jwt != nullptr && foreign(*jwt))) {
    return reply(absl::PermissionDeniedError("simulated: the grant is not for this"));
  }
  std::visit(
      [this](auto& e) {
        if constexpr (requires { e.key.serial; }) e.key.serial = Serial();
      },
      event);
  const int64_t ticket = witness_->Asked(event);
  engine_->Submit(
      event, [this, event, ticket, reply = std::move(reply)](const absl::StatusOr<Answer>& answer) {
        world().Log(name(), absl::StrCat("answers ", event.index(), " ",
                                         absl::StatusCodeToString(answer.status().code())));
        if (answer.ok()) witness_->Answered(event, ticket);
        if (answer.ok() && signed_.has_value()) witness_->Signed(event, *signed_);
        if (answer.ok() && signed_token_.has_value()) {
          witness_->Signed(event, *signed_token_, signed_by_);
        }
        signed_.reset();
        signed_token_.reset();
        reply(answer);
      });
}

absl::StatusOr<std::string> CredentialsActor::Signer::Sign(const credentials::IssueOrder& order) {
  actor_->signed_ = order;
  return order.serial;
}

void CredentialsActor::JwtKeys::Make(
    const std::string& algorithm,
    absl::AnyInvocable<void(absl::StatusOr<credentials::v1::JwtKeyRecord>)> done) {
  // Making one takes long enough for another replica to be faster.
  actor_->Later(
      actor_->world().random().Between(absl::Milliseconds(5), absl::Seconds(2)),
      [actor = actor_, algorithm, done = std::make_shared<decltype(done)>(std::move(done))] {
        credentials::v1::JwtKeyRecord key;
        key.set_algorithm(algorithm);
        key.set_key_id(absl::StrCat(actor->name(), "-", actor->world().random().Uuid4()));
        key.set_public_jwk(absl::StrCat("public ", key.key_id()));
        (*done)(key);
      });
}

void CredentialsActor::JwtKeys::Open(const std::vector<credentials::v1::JwtKeyRecord>& records,
                                     absl::AnyInvocable<void(absl::Status)> done) {
  open_.clear();
  for (const auto& record : records) open_.insert(record.key_id());
  done(absl::OkStatus());
}

absl::StatusOr<std::string> CredentialsActor::JwtKeys::Sign(const credentials::JwtOrder& order) {
  if (open_.count(order.key_id) == 0) return absl::UnavailableError("KEY_NOT_OPEN");
  if (first_.empty()) first_ = order.key_id;
  actor_->signed_by_ = actor_->mutants_->credentials_keeps_first_key ? first_ : order.key_id;
  actor_->signed_token_ = order;
  return absl::StrCat("by ", actor_->signed_by_);
}

}  // namespace capstan::simulation
