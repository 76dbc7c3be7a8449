#include "libs/auth/policy_access.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/auth/no_placement.h"
#include "libs/resource/id.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::auth {
namespace {

using type::v1::AccessRule;

// How long a revoked call has to end by itself.
constexpr absl::Duration kBreakOffAfter = absl::Seconds(1);

AccessRule::Caller CallerKind(const Caller& caller) {
  if (!caller.id.has_value()) return AccessRule::CALLER_ANONYMOUS;
  switch (caller.id->kind) {
    case SpiffeId::Kind::kPerson:
      return AccessRule::CALLER_PERSON;
    case SpiffeId::Kind::kService:
      return AccessRule::CALLER_SERVICE;
    case SpiffeId::Kind::kExecutor:
      return AccessRule::CALLER_EXECUTOR;
    case SpiffeId::Kind::kNode:
      return AccessRule::CALLER_NODE;
    case SpiffeId::Kind::kTask:
      return AccessRule::CALLER_TASK;
    case SpiffeId::Kind::kServiceAccount:
      break;
  }
  return AccessRule::CALLER_UNSPECIFIED;
}

// One text for everything that is refused, so that it tells nothing about what exists.
absl::Status Denied(const Caller& caller) {
  return status::PermissionDenied(caller.permission.empty() ? caller.method : caller.permission,
                                  caller.resource);
}

absl::Status Unauthenticated(absl::string_view reason, absl::string_view message) {
  return status::Error(absl::StatusCode::kUnauthenticated, reason, message);
}

}  // namespace

PolicyAccess::PolicyAccess(std::string trust_domain, const PolicyHolder* policy, const Clock* clock,
                           audit::AuditSink* audit, RefusalObserver observer)
    : trust_domain_(std::move(trust_domain)),
      policy_(policy),
      clock_(clock),
      observer_(std::move(observer)),
      denials_(audit) {}

PolicyAccess::~PolicyAccess() { denials_.Flush(BootTime::InfiniteFuture()); }

void PolicyAccess::FlushDenials() { denials_.Flush(clock_->Read().boot); }

absl::StatusOr<Caller> PolicyAccess::Authorize(const Peer& peer, absl::string_view method,
                                               const google::protobuf::Message* request) {
  const Now now = clock_->Read();
  Caller caller;
  caller.method = std::string(method);
  const AccessRule* rule = rules_.Find(method);
  if (rule != nullptr) {
    caller.permission = rule->permission();
    caller.audited = rule->audited();
    if (request != nullptr && !rule->resource_field().empty()) {
      caller.resource = ResourceOf(*request, rule->resource_field());
    }
  }
  absl::Status refusal;
  if (!peer.spiffe_id.empty()) {
    caller.serial = peer.serial;
    caller.not_after = peer.not_after;
    absl::StatusOr<SpiffeId> id = SpiffeId::Parse(peer.spiffe_id);
    if (id.ok()) {
      caller.id = *std::move(id);
    } else {
      refusal =
          Unauthenticated("UNKNOWN_IDENTITY", "The certificate's SPIFFE id is not Capstan's.");
    }
  }
  if (refusal.ok()) refusal = rule == nullptr ? Denied(caller) : Decide(*rule, caller, now);
  if (refusal.ok() && rule->placement() && caller.IsNode()) {
    refusal = CheckGrant(peer, &caller, now);
  }
  if (!refusal.ok()) {
    Audit(caller, refusal, now);
    return refusal;
  }
  // No refusal of a right, so none to be audited.
  CAPSTAN_RETURN_IF_ERROR(CheckProject(caller));
  return caller;
}

absl::Status PolicyAccess::Recheck(const Caller& caller) {
  const Now now = clock_->Read();
  const AccessRule* rule = rules_.Find(caller.method);
  const absl::Status refusal = rule == nullptr ? Denied(caller) : Decide(*rule, caller, now);
  if (!refusal.ok()) Audit(caller, refusal, now);
  return refusal;
}

std::shared_ptr<void> PolicyAccess::Track(const Caller& caller, auth::Revoke revoke) {
  std::shared_ptr<OpenCalls::Call> call = open_calls_.Add(caller, std::move(revoke));
  // The policy may have changed between Authorize and here.
  const absl::Status allowed = Recheck(caller);
  if (!allowed.ok()) OpenCalls::Revoke(call.get(), allowed, clock_->Read().boot);
  return call;
}

PolicyAccess::Revocations PolicyAccess::RecheckOpenCalls() {
  Revocations result;
  const Now now = clock_->Read();
  for (const std::shared_ptr<OpenCalls::Call>& call : open_calls_.All()) {
    const int64_t revoked_at = call->revoked_at;
    // A right that came back does not bring a revoked call back.
    if (revoked_at != 0) {
      ++result.still_open;
      if (now.boot.ToNanoseconds() - revoked_at < absl::ToInt64Nanoseconds(kBreakOffAfter))
        continue;
      OpenCalls::Revoke(call.get(), absl::CancelledError("The call was revoked."), now.boot);
      continue;
    }
    const AccessRule* rule = rules_.Find(call->caller.method);
    const absl::Status refusal =
        rule == nullptr ? Denied(call->caller) : Decide(*rule, call->caller, now);
    if (refusal.ok()) continue;
    Audit(call->caller, refusal, now);
    ++result.revoked;
    OpenCalls::Revoke(call.get(), refusal, now.boot);
  }
  return result;
}

absl::Status PolicyAccess::Decide(const AccessRule& rule, const Caller& caller, Now now) const {
  const AccessRule::Caller kind = CallerKind(caller);
  const bool admitted =
      std::find(rule.callers().begin(), rule.callers().end(), kind) != rule.callers().end();
  if (!caller.id.has_value()) {
    if (admitted) return absl::OkStatus();
    return Unauthenticated("NO_IDENTITY", "This method needs a client certificate.");
  }
  if (caller.id->trust_domain != trust_domain_) {
    return Unauthenticated("UNKNOWN_IDENTITY", "The certificate is of another trust domain.");
  }
  if (caller.not_after <= now.wall) {
    return Unauthenticated("SVID_EXPIRED", "The client certificate has expired.");
  }
  const std::shared_ptr<const Policy> policy = policy_->Get();
  if (policy != nullptr && policy->IsDenied(*caller.id, caller.serial)) {
    // Who is denied may know it: that says nothing about what else there is.
    return status::Error(absl::StatusCode::kPermissionDenied, "IDENTITY_DENIED",
                         "This identity has been denied by an admin of the trust domain; see "
                         "`capstan access denials`.");
  }
  if (!admitted) return Denied(caller);
  if (kind == AccessRule::CALLER_SERVICE &&
      std::find(rule.services().begin(), rule.services().end(), caller.id->service) ==
          rule.services().end()) {
    return Denied(caller);
  }
  if (kind == AccessRule::CALLER_PERSON) return CheckPerson(caller, now);
  return absl::OkStatus();
}

absl::Status PolicyAccess::CheckGrant(const Peer& peer, Caller* caller, Now now) const {
  if (placements_ == nullptr) return NoPlacement("nothing here verifies grants");
  if (peer.grant.empty()) return NoPlacement("it shows no grant");
  absl::StatusOr<std::shared_ptr<const VerifiedPlacement>> verified =
      placements_->Verify(peer.grant, now.wall);
  if (!verified.ok()) return verified.status();
  const type::v1::Placement& placement = (*verified)->placement;
  if (placement.cluster() != caller->id->cluster || placement.node() != caller->id->node) {
    return NoPlacement("the grant is another Node's");
  }
  const std::shared_ptr<const Policy> policy = policy_->Get();
  if (policy != nullptr &&
      policy->IsDenied(SpiffeId::Service(trust_domain_, "scheduler"), (*verified)->signer_serial)) {
    return NoPlacement("the certificate that signed the grant was denied");
  }
  caller->placement = std::shared_ptr<const type::v1::Placement>(*verified, &placement);
  return absl::OkStatus();
}

absl::Status PolicyAccess::CheckPlacement(const Caller& caller, const PlacementClaim& claim) {
  if (!caller.IsNode()) return absl::OkStatus();
  const absl::Status refusal = caller.placement == nullptr ? NoPlacement("it shows no grant")
                                                           : Matches(*caller.placement, claim);
  if (!refusal.ok()) Audit(caller, refusal, clock_->Read());
  return refusal;
}

absl::Status PolicyAccess::CheckPerson(const Caller& caller, Now now) const {
  const std::shared_ptr<const Policy> policy = policy_->Get();
  if (policy == nullptr || now.boot >= policy->expires()) {
    return status::Error(absl::StatusCode::kUnavailable, "POLICY_EXPIRED",
                         "The access policy known here is too old to decide from, for this service "
                         "has not heard from the credentials service; see that it runs and can be "
                         "reached (`capstan dev status`), and try again then. Jobs go on.");
  }
  // A rule without a permission admits every person, e.g. to renew the own identity.
  if (caller.permission.empty()) return absl::OkStatus();
  if (!policy->Gives(caller.id->person, caller.permission, ProjectOf(caller.resource))) {
    return Denied(caller);
  }
  return absl::OkStatus();
}

absl::Status PolicyAccess::CheckProject(const Caller& caller) const {
  if (!caller.IsPerson() || caller.permission.empty()) return absl::OkStatus();
  const absl::string_view project = ProjectOf(caller.resource);
  // What is no id, `-` for all of them included, is for the handler to judge.
  if (!resource::IsValidId(project)) return absl::OkStatus();
  const std::shared_ptr<const Policy> policy = policy_->Get();
  if (policy == nullptr || policy->HasProject(project)) return absl::OkStatus();
  return status::Error(absl::StatusCode::kNotFound, "PROJECT_NOT_FOUND",
                       absl::StrCat("There is no Project '", project,
                                    "'; see `capstan project list`. If it was made just now, try "
                                    "again."),
                       {{"resource", absl::StrCat("projects/", project)}});
}

void PolicyAccess::Audit(const Caller& caller, const absl::Status& refusal, Now now) {
  if (observer_) observer_();
  audit::AuditEntry entry;
  entry.principal = caller.Name();
  entry.act = caller.method;
  entry.resource = caller.resource.substr(0, 1024);
  entry.outcome_code = static_cast<int>(refusal.code());
  const std::string reason = status::Reason(refusal);
  entry.message = reason.empty() ? "refused" : reason;
  denials_.Record(std::move(entry), now.boot);
}

}  // namespace capstan::auth
