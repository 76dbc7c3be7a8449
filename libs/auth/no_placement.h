#ifndef CAPSTAN_LIBS_AUTH_NO_PLACEMENT_H_
#define CAPSTAN_LIBS_AUTH_NO_PLACEMENT_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/status/error.h"

namespace capstan::auth {

// What a Node gets that may not call about a Job. `why` is about the grant alone.
inline absl::Status NoPlacement(absl::string_view why) {
  return status::Error(
      absl::StatusCode::kPermissionDenied, "NO_PLACEMENT",
      absl::StrCat("The scheduler has granted this Node no such thing: ", why,
                   ". Grants come with the scheduler's orders: scheduler and executors must be of "
                   "this version or a newer one."));
}

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_NO_PLACEMENT_H_
