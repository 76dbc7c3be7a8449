// Who calls, and what was decided about the call.
#ifndef CAPSTAN_LIBS_AUTH_PRINCIPAL_H_
#define CAPSTAN_LIBS_AUTH_PRINCIPAL_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/auth/spiffe_id.h"

namespace capstan::type::v1 {
class Placement;
}  // namespace capstan::type::v1

namespace capstan::auth {

// What the transport knows about the other side. Only the transport makes one.
struct Peer {
  // URI of the verified certificate; empty if there was no certificate.
  std::string spiffe_id;
  // Serial of the certificate, lower-case hex without leading zeros.
  std::string serial;
  absl::Time not_after = absl::InfinitePast();
  // Serialised PlacementGrant that was shown with the call, unverified; empty if there was none.
  std::string grant;
};

// An admitted caller. A value; keep it with a stream and ask Access::Recheck again.
struct Caller {
  // Absent for an anonymous caller.
  absl::optional<SpiffeId> id;
  std::string serial;
  absl::Time not_after = absl::InfiniteFuture();
  // `/package.Service/Method`.
  std::string method;
  // What the rule asked for; empty for callers that need none.
  std::string permission;
  // Value of the rule's resource field; may be empty.
  std::string resource;
  // The act must be in the audit log, in its own transaction or before it has effect.
  bool audited = false;
  // Of a Node whose call's rule asks for one: what the scheduler has granted to it, verified. Ask
  // Access::CheckPlacement about it.
  std::shared_ptr<const type::v1::Placement> placement;

  bool IsPerson() const { return Is(SpiffeId::Kind::kPerson); }
  bool IsService() const { return Is(SpiffeId::Kind::kService); }
  bool IsExecutor() const { return Is(SpiffeId::Kind::kExecutor); }
  bool IsNode() const { return Is(SpiffeId::Kind::kNode); }
  bool IsTask() const { return Is(SpiffeId::Kind::kTask); }
  bool Is(SpiffeId::Kind kind) const { return id.has_value() && id->kind == kind; }
  // The SPIFFE id, or `anonymous`.
  std::string Name() const { return id.has_value() ? id->ToString() : "anonymous"; }
};

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_PRINCIPAL_H_
