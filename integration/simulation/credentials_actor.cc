#include "integration/simulation/credentials_actor.h"

#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/credentials/core/serial.h"
#include "services/credentials/core/store_key.h"

namespace capstan::simulation {

using credentials::CallId;
using credentials::CredentialsCore;
using credentials::Event;

CredentialsActor::CredentialsActor(World* world, const MachineClock* clock, const Mutants* mutants)
    : Process(world, "credentials", clock), mutants_(mutants), witness_(world, &disk_) {}

void CredentialsActor::OnStart() {
  core_ = std::make_unique<CredentialsCore>(credentials::CoreConfig());
  std::vector<store::KeyValue> records;
  for (store::KeyValue& kv : disk_.Read()) {
    if (absl::StartsWith(kv.key, credentials::kAuditPrefix)) continue;
    if (mutants_->credentials_forgets_denials &&
        absl::StartsWith(kv.key, credentials::kDenyPrefix)) {
      continue;
    }
    records.push_back(std::move(kv));
  }
  const absl::Status loaded = core_->Load(records);
  if (!loaded.ok()) return world().Violate(absl::StrCat("credentials: ", loaded.ToString()));
  witness_.Loaded();
  pipe_ = std::make_unique<CommitPipe>(this, &disk_,
                                       CommitPipe::BehindIf(mutants_->credentials_acts_first));
  if (core_->initialised()) {
    serving_ = true;
    if (!mutants_->credentials_forgets_denials) witness_.Published(core_->Snapshot());
  } else {
    credentials::FirstRun first;
    first.trust_domain.set_schema(credentials::kSchema);
    first.trust_domain.set_name(kDomain);
    first.admin_uid = 1000;
    first.project_uid = world().random().Uuid4();
    Apply(first, 0);
    pipe_->Submit({}, {}, [this](int64_t) { serving_ = true; });
  }
  // Makes the keys that are missing.
  Apply(credentials::Tick{}, 0);
}

void CredentialsActor::OnCrash() {
  pipe_->Crash();
  pipe_.reset();
  core_.reset();
  calls_.clear();
  serving_ = false;
}

void CredentialsActor::OnAlarm() { Apply(credentials::Tick{}, 0); }

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
  if (!serving_) return reply(absl::UnavailableError("credentials does not serve"));
  const CallId call = next_call_++;
  std::visit(
      [this, call](auto& e) {
        if constexpr (requires { e.call; }) e.call = call;
        if constexpr (requires { e.key.serial; }) e.key.serial = Serial();
      },
      event);
  calls_[call] = std::move(reply);
  Apply(event, call);
}

void CredentialsActor::Apply(const Event& event, CallId call) {
  witness_.Asked(event, call);
  credentials::Step step = core_->Apply(event, Read());
  std::vector<store::Put> audits;
  for (const store::Put& put : step.puts) {
    if (absl::StartsWith(put.key, credentials::kAuditPrefix)) audits.push_back(put);
  }
  pipe_->Submit(std::move(step.puts), std::move(step.deletes),
                [this, my_life = life(), event, audits = std::move(audits),
                 after = std::move(step.after)](int64_t) {
                  for (const credentials::Effect& effect : after) {
                    if (up() && life() == my_life) CarryOut(effect, event, audits);
                  }
                });
  SetAlarm(core_->NextDeadline());
}

void CredentialsActor::CarryOut(const credentials::Effect& effect, const Event& event,
                                const std::vector<store::Put>& audits) {
  if (const auto* publish = std::get_if<credentials::PublishPolicy>(&effect)) {
    world().Log(name(), absl::StrCat("publishes policy ", publish->snapshot->revision()));
    return witness_.Published(*publish->snapshot);
  }
  if (const auto* make = std::get_if<credentials::MakeJwtKey>(&effect)) {
    Later(absl::Milliseconds(50), [this, algorithm = make->algorithm] {
      capstan::credentials::v1::JwtKeyRecord key;
      key.set_algorithm(algorithm);
      key.set_key_id(world().random().Uuid4());
      key.set_public_jwk("{}");
      Apply(credentials::JwtKeyMade{algorithm, key}, 0);
    });
    return;
  }
  const auto* answer = std::get_if<credentials::Reply>(&effect);
  if (answer == nullptr) return;
  const auto call = calls_.find(answer->call);
  if (call == calls_.end()) return;
  world().Log(name(), absl::StrCat("answers ", answer->call, " ",
                                   absl::StatusCodeToString(answer->outcome.status().code())));
  witness_.Answered(event, answer->call, answer->outcome, Read().wall, audits);
  call->second(answer->outcome);
  calls_.erase(call);
}

}  // namespace capstan::simulation
