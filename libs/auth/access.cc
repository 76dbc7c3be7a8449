#include "libs/auth/access.h"

#include "libs/auth/no_placement.h"

namespace capstan::auth {

absl::Status Access::CheckPlacement(const Caller& caller, const PlacementClaim&) {
  if (!caller.IsNode()) return absl::OkStatus();
  return NoPlacement("nothing here verifies grants");
}

}  // namespace capstan::auth
