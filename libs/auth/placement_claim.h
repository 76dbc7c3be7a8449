#ifndef CAPSTAN_LIBS_AUTH_PLACEMENT_CLAIM_H_
#define CAPSTAN_LIBS_AUTH_PLACEMENT_CLAIM_H_

#include <cstdint>
#include <string>

#include "absl/types/optional.h"

namespace capstan::auth {

// What a Node's call is about, to be compared with the grant that it shows. What is unset is not
// compared; what is set must be equal, so that an empty text matches only a grant without one.
struct PlacementClaim {
  // Resource name.
  absl::optional<std::string> job{};
  absl::optional<std::string> job_uid{};
  absl::optional<int64_t> generation{};
  // `<job uid>/<generation>`: a holder of pins.
  absl::optional<std::string> holder{};
  absl::optional<std::string> group{};
  absl::optional<int32_t> index{};
  // Resource names.
  absl::optional<std::string> service_account{};
  absl::optional<std::string> bundle{};
  absl::optional<std::string> output{};
  // One of the granted versions.
  absl::optional<std::string> version{};
};

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_PLACEMENT_CLAIM_H_
