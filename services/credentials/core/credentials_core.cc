#include "services/credentials/core/credentials_core.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/store/record.h"
#include "libs/time/proto_time.h"
#include "services/credentials/core/store_key.h"

namespace capstan::credentials {
namespace {

using Kind = auth::SpiffeId::Kind;

// Records that fall due together leave together.
constexpr absl::Duration kPruneDelay = absl::Seconds(10);
// Pause between batches of records that are due already.
constexpr absl::Duration kPrunePause = absl::Milliseconds(100);
constexpr absl::Duration kLookAtKeys = absl::Hours(1);

}  // namespace

CredentialsCore::CredentialsCore(const CoreConfig& config)
    : config_(config),
      audit_(config.refusal_fold_window),
      issuance_(config.token_repeat_window),
      jwt_keys_(config.jwt_keys) {}

absl::Status CredentialsCore::Load(const std::vector<store::KeyValue>& records) {
  // Calls `take` with the parsed record.
  const auto load = [](const store::KeyValue& kv, auto record, auto take) {
    absl::Status status = store::ParseRecord(kv, kSchema, &record);
    if (status.ok()) take(record);
    return status;
  };
  for (const store::KeyValue& kv : records) {
    absl::Status status;
    if (kv.key == kTrustDomainKey) {
      status = load(kv, v1::TrustDomainRecord(), [&](const auto& r) { trust_domain_ = r; });
    } else if (kv.key == kPolicyHeadKey) {
      status = load(kv, v1::PolicyHeadRecord(), [&](const auto& r) { policy_.Load(r); });
    } else if (kv.key == kAuditHeadKey) {
      status = load(kv, v1::AuditHeadRecord(), [&](const auto& r) { audit_.Load(r); });
    } else if (absl::StartsWith(kv.key, kProjectPrefix)) {
      status = load(kv, v1::ProjectRecord(), [&](const auto& r) { policy_.Load(r); });
    } else if (absl::StartsWith(kv.key, kRoleBindingPrefix)) {
      status = load(kv, v1::RoleBindingRecord(), [&](const auto& r) { policy_.Load(r); });
    } else if (absl::StartsWith(kv.key, kDenyPrefix)) {
      status = load(kv, v1::DenyRecord(), [&](const auto& r) { policy_.Load(r); });
    } else if (absl::StartsWith(kv.key, kJoinTokenPrefix)) {
      status = load(kv, v1::JoinTokenRecord(), [&](const auto& r) { issuance_.Load(r); });
    } else if (absl::StartsWith(kv.key, kIssuedPrefix)) {
      status = load(kv, v1::IssuedRecord(), [&](const auto& r) { issuance_.Load(r); });
    } else if (absl::StartsWith(kv.key, kPersonPrefix)) {
      status = load(kv, v1::PersonRecord(), [&](const auto& r) { persons_.insert(r.uid()); });
    } else if (kv.key == kJwtKeysHeadKey) {
      status = load(kv, v1::JwtKeysHeadRecord(), [&](const auto& r) { jwt_keys_.Load(r); });
    } else if (absl::StartsWith(kv.key, kJwtKeyPrefix)) {
      status = load(kv, v1::JwtKeyRecord(), [&](const auto& r) { jwt_keys_.Load(r); });
    } else if (absl::StartsWith(kv.key, kRequestPrefix)) {
      status = load(kv, v1::RequestRecord(), [&](const auto& r) { LoadRequest(r); });
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void CredentialsCore::Restore(Unstored unstored) {
  audit_.SetWindows(std::move(unstored.windows));
  jwt_keys_.Restore(std::move(unstored.keys));
  last_now_ = unstored.last_now;
}

Step CredentialsCore::Apply(const Event& event, const Now& now) {
  last_now_ = now;
  return std::visit([&](const auto& e) { return On(e, now); }, event);
}

absl::optional<BootTime> CredentialsCore::NextDeadline() const {
  BootTime next = audit_.NextDeadline();
  absl::Time prune = issuance_.NextPrune();
  if (!request_ends_.empty()) prune = std::min(prune, request_ends_.begin()->first);
  if (prune <= last_now_.wall) {
    next = std::min(next, last_now_.boot + kPrunePause);
  } else if (prune < absl::InfiniteFuture()) {
    next = std::min(next, last_now_.boot + (prune - last_now_.wall) + kPruneDelay);
  }
  if (const absl::Time change = jwt_keys_.NextChange(); change < absl::InfiniteFuture()) {
    // Looked at every hour, since the wall clock may step.
    next = std::min(next,
                    last_now_.boot + std::clamp(change - last_now_.wall, kPrunePause, kLookAtKeys));
  }
  if (next == BootTime::InfiniteFuture()) return absl::nullopt;
  return next;
}

std::string CredentialsCore::IdOf(absl::string_view path) const {
  return absl::StrCat("spiffe://", trust_domain_->name(), path);
}

absl::Status CredentialsCore::CheckNotDenied(const std::string& spiffe_id,
                                             const std::string& serial) const {
  if (!policy_.IsDeniedId(spiffe_id) && !policy_.IsDeniedSerial(serial)) return absl::OkStatus();
  return status::Error(absl::StatusCode::kPermissionDenied, "IDENTITY_DENIED",
                       absl::StrCat("`", spiffe_id, "` has been denied."),
                       {{"spiffe_id", spiffe_id}});
}

IssueOrder CredentialsCore::Issue(const std::string& spiffe_id, Kind kind,
                                  const CertifiableKey& key, absl::Time session_start,
                                  const Now& now, Step* step, const std::string& node) {
  absl::Duration ttl = config_.svid_ttl;
  if (kind == Kind::kTask) ttl = config_.task_svid_ttl;
  if (kind == Kind::kPerson) ttl = config_.person_svid_ttl;
  IssueOrder order;
  order.spiffe_id = spiffe_id;
  order.spki = key.spki;
  order.serial = key.serial;
  // Certificates speak in whole seconds. Back-dated for verifiers whose clocks are behind, but
  // never by so much that a third of a short life has passed at once.
  const absl::Time start = absl::FromUnixSeconds(absl::ToUnixSeconds(now.wall));
  order.not_before = start - std::min(absl::Seconds(10), absl::Floor(ttl / 10, absl::Seconds(1)));
  order.not_after = start + ttl;
  issuance_.AddIssued(order, session_start, node, step);
  return order;
}

void CredentialsCore::Audit(absl::string_view principal, absl::string_view act,
                            absl::string_view resource, const std::string& message, const Now& now,
                            Step* step) {
  audit_.Append({.principal = std::string(principal),
                 .act = std::string(act),
                 .resource = std::string(resource),
                 .message = message},
                now, step);
}

Step CredentialsCore::Refuse(CallId call, absl::string_view principal, absl::string_view act,
                             absl::string_view resource, const absl::Status& answer,
                             const std::string& message, const Now& now) {
  Step step;
  audit_.AppendRefusal({.principal = std::string(principal),
                        .act = std::string(act),
                        .resource = std::string(resource),
                        .outcome_code = static_cast<int>(answer.code()),
                        .message = message},
                       now, &step);
  step.after.push_back(Reply{call, answer});
  return step;
}

void CredentialsCore::Publish(Step* step) const {
  step->after.push_back(PublishPolicy{std::make_shared<const v1::PolicySnapshot>(Snapshot())});
}

absl::optional<absl::StatusOr<Outcome>> CredentialsCore::Repeated(
    const RequestIdentity& request) const {
  if (request.request_id.empty()) return absl::nullopt;
  const auto it = requests_.find(RequestKey(request.principal, request.request_id));
  if (it == requests_.end()) return absl::nullopt;
  if (it->second.body_sha256() != request.body_sha256) {
    return absl::StatusOr<Outcome>(
        status::Error(absl::StatusCode::kAlreadyExists, "REQUEST_ID_REUSED",
                      "this request_id was used with another body within the last 24 h; use a "
                      "fresh UUID for a new request",
                      {{"request_id", request.request_id}}));
  }
  const std::string& resource = it->second.resource();
  if (const v1::Project* project = policy_.FindProject(resource)) {
    return absl::StatusOr<Outcome>(*project);
  }
  if (const v1::RoleBinding* binding = policy_.FindRoleBinding(resource)) {
    return absl::StatusOr<Outcome>(*binding);
  }
  // Made, and deleted since: nothing else that it could mean.
  return absl::StatusOr<Outcome>(status::NotFound(resource));
}

void CredentialsCore::Remember(const RequestIdentity& request, const std::string& resource,
                               const Now& now, Step* step) {
  if (request.request_id.empty()) return;
  v1::RequestRecord record;
  record.set_schema(kSchema);
  record.set_principal(request.principal);
  record.set_request_id(request.request_id);
  record.set_body_sha256(request.body_sha256);
  record.set_resource(resource);
  *record.mutable_create_time() = ToProto(now.wall);
  step->puts.push_back({.key = RequestKey(request.principal, request.request_id),
                        .value = record.SerializeAsString()});
  LoadRequest(record);
}

void CredentialsCore::LoadRequest(const v1::RequestRecord& record) {
  std::string key = RequestKey(record.principal(), record.request_id());
  request_ends_.insert({ToTime(record.create_time()) + config_.request_memory, key});
  requests_[std::move(key)] = record;
}

void CredentialsCore::PruneRequests(absl::Time now, Step* step) {
  for (int pruned = 0; pruned < 20 && !request_ends_.empty() && request_ends_.begin()->first <= now;
       ++pruned) {
    step->deletes.push_back({.key = request_ends_.begin()->second, .end = ""});
    requests_.erase(request_ends_.begin()->second);
    request_ends_.erase(request_ends_.begin());
  }
}

Step CredentialsCore::On(const RecordAct& event, const Now& now) {
  Step step;
  audit_.Append({.principal = event.principal,
                 .act = event.act,
                 .resource = event.resource,
                 .outcome_code = event.outcome_code,
                 .message = event.message,
                 .repeats = event.repeats},
                now, &step);
  step.after.push_back(Reply{event.call, Outcome(Done{})});
  return step;
}

Step CredentialsCore::On(const Tick& event, const Now& now) {
  Step step;
  issuance_.Prune(now.wall, &step);
  PruneRequests(now.wall, &step);
  if (!event.flush) RotateKeys(now.wall, &step);
  audit_.CloseWindows(now, event.flush, &step);
  return step;
}

}  // namespace capstan::credentials
