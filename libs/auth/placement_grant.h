// Grants by which a Node shows services what was placed on it: made by the scheduler, verified by
// anyone with the trust bundle, with nobody's help, so that no outage of the scheduler stops a
// Task.
#ifndef CAPSTAN_LIBS_AUTH_PLACEMENT_GRANT_H_
#define CAPSTAN_LIBS_AUTH_PLACEMENT_GRANT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/auth/placement_claim.h"
#include "libs/rpc/x509.h"
#include "proto/capstan/type/v1/placement_grant.pb.h"

namespace capstan::auth {

// How far a signer's clock may be ahead.
inline constexpr absl::Duration kGrantClockSkew = absl::Minutes(5);

// Signs all at once, with the key of the scheduler's SVID, whose leaf is `certificate` (DER). One
// signature, and 2 n hashes. In the order of `placements`, whose `sign_time` is set.
absl::StatusOr<std::vector<type::v1::PlacementGrant>> SignPlacements(
    const std::vector<type::v1::Placement>& placements, const rpc::PrivateKey& key,
    const std::string& certificate);

struct VerifiedPlacement {
  type::v1::Placement placement;
  // Of the certificate that signed; lower-case hex.
  std::string signer_serial;
};

// Verifies that the scheduler of `trust_domain` has signed, at a time when its certificate was
// valid by `roots` (DER) and that is not after `now` by more than kGrantClockSkew. NO_PLACEMENT,
// saying what does not hold.
absl::StatusOr<VerifiedPlacement> VerifyGrant(absl::string_view grant,
                                              absl::string_view trust_domain,
                                              const std::vector<std::string>& roots,
                                              absl::Time now);

// OK if the Placement is of what the call is about; else NO_PLACEMENT, naming what differs.
absl::Status Matches(const type::v1::Placement& placement, const PlacementClaim& claim);

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_PLACEMENT_GRANT_H_
