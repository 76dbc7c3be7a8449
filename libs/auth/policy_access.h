#ifndef CAPSTAN_LIBS_AUTH_POLICY_ACCESS_H_
#define CAPSTAN_LIBS_AUTH_POLICY_ACCESS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/access.h"
#include "libs/auth/access_rules.h"
#include "libs/auth/call_tracker.h"
#include "libs/auth/denial_log.h"
#include "libs/auth/open_calls.h"
#include "libs/auth/placement_verifier.h"
#include "libs/auth/policy.h"
#include "libs/auth/principal.h"
#include "libs/time/clock.h"

namespace capstan::auth {

// Access as production decides it: by the rules in the descriptors and the policy in force.
//
// Services, executors, nodes and Tasks need only a certificate that is valid and not denied, so
// that leases, stops and health go on while credentials is down. People are checked against role
// bindings, and refused once the policy has expired.
class PolicyAccess final : public Access, public CallTracker {
 public:
  // Told about each refused call, on the thread that asked: for a counter.
  using RefusalObserver = std::function<void()>;

  // The pointers must outlive it. `trust_domain` is the only one admitted.
  PolicyAccess(std::string trust_domain, const PolicyHolder* policy, const Clock* clock,
               audit::AuditSink* audit, RefusalObserver observer = nullptr);
  // From now on, before the first call: admits Nodes that show a grant which `verifier` finds to
  // hold. Without it methods that ask Nodes for one refuse them all. It must outlive this.
  void VerifyPlacements(PlacementVerifier* verifier) { placements_ = verifier; }

  // Writes what was counted and not yet recorded.
  ~PolicyAccess() override;

  absl::StatusOr<Caller> Authorize(const Peer& peer, absl::string_view method,
                                   const google::protobuf::Message* request) override;
  absl::Status Recheck(const Caller& caller) override;
  absl::Status CheckPlacement(const Caller& caller, const PlacementClaim& claim) override;
  std::shared_ptr<void> Track(const Caller& caller, auth::Revoke revoke) override;

  struct Revocations {
    // Calls revoked now.
    int revoked = 0;
    // Calls revoked earlier that are still open.
    int still_open = 0;
  };
  // Decides again about every call that is tracked and revokes those whose right is gone: to be
  // called when the policy has changed, and every few seconds, since certificates and policies
  // expire. Those that were revoked a second ago or more and are still open are broken off.
  Revocations RecheckOpenCalls();

  // Writes the repeats of refusals whose window is over; call it about once a minute.
  void FlushDenials();

 private:
  absl::Status Decide(const type::v1::AccessRule& rule, const Caller& caller, Now now) const;
  // Sets the caller's placement.
  absl::Status CheckGrant(const Peer& peer, Caller* caller, Now now) const;
  absl::Status CheckPerson(const Caller& caller, Now now) const;
  // That the Project in which an admitted person acts is there. Whoever may not see it is not asked
  // this: to them it is forbidden, as all others are.
  absl::Status CheckProject(const Caller& caller) const;
  void Audit(const Caller& caller, const absl::Status& refusal, Now now);

  const std::string trust_domain_;
  const PolicyHolder* const policy_;
  const Clock* const clock_;
  const RefusalObserver observer_;
  PlacementVerifier* placements_ = nullptr;
  AccessRules rules_;
  DenialLog denials_;
  OpenCalls open_calls_;
};

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_POLICY_ACCESS_H_
