#ifndef CAPSTAN_LIBS_AUTH_ACCESS_H_
#define CAPSTAN_LIBS_AUTH_ACCESS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/auth/placement_claim.h"
#include "libs/auth/principal.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace capstan::auth {

// Decides who may call what. Thread-safe; does not block but for the audit record of a refusal.
class Access {
 public:
  virtual ~Access() = default;

  // Decides about one call by the AccessRule of `method` (`/package.Service/Method`). `request` is
  // where the rule's resource field is read; null for a stream whose first message is yet to come.
  // Errors, all made before anything is looked up:
  //   UNAUTHENTICATED    no certificate where one is needed, or it has expired;
  //   PERMISSION_DENIED  the same text for what is forbidden and what is absent (AIP-211);
  //   UNAVAILABLE        reason POLICY_EXPIRED: a person calls, and the policy is too old to
  //   decide.
  //
  // What it does not decide: that an executor, node or Task touches only what is its own. Handlers
  // compare `Caller::id` with the request, and where the rule has `placement`, ask CheckPlacement.
  // A Node that shows no grant there, or one that does not hold, gets PERMISSION_DENIED with reason
  // NO_PLACEMENT.
  virtual absl::StatusOr<Caller> Authorize(const Peer& peer, absl::string_view method,
                                           const google::protobuf::Message* request) = 0;

  // Decides again about a caller that was admitted: for each message of an open stream. Fails if
  // the identity was denied, its certificate has expired, or the role was taken away.
  virtual absl::Status Recheck(const Caller& caller) = 0;

  // OK if the caller is no Node, or the grant that it showed is for what the call is about; else
  // PERMISSION_DENIED with reason NO_PLACEMENT, which says nothing about what exists. For methods
  // whose rule has `placement`, before anything is looked up.
  virtual absl::Status CheckPlacement(const Caller& caller, const PlacementClaim& claim);
};

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_ACCESS_H_
