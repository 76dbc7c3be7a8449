#ifndef CAPSTAN_LIBS_AUTH_CALL_TRACKER_H_
#define CAPSTAN_LIBS_AUTH_CALL_TRACKER_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "libs/auth/access.h"
#include "libs/auth/principal.h"

namespace capstan::auth {

// Ends an open call whose caller has lost its right, with the status that Access::Recheck answers.
// Comes from any thread, also from within Track, and again a second later as long as the call is
// still open: then its peer does not read, and the call is to be broken off. Must not block.
using Revoke = std::function<void(const absl::Status& why)>;

// Watches over the rights of calls that stay open, so that they end although nothing is sent on
// them. Thread-safe.
class CallTracker {
 public:
  virtual ~CallTracker() = default;

  // Until what is returned goes. `revoke` must not keep the call alive, and may still come shortly
  // after that.
  virtual std::shared_ptr<void> Track(const Caller& caller, Revoke revoke) = 0;
};

// Tracks a call of a caller whom `access` has admitted. Null, without effect, if `access` is no
// CallTracker: then it takes no right away while a call is open.
std::shared_ptr<void> TrackCall(Access* access, const Caller& caller, Revoke revoke);

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_CALL_TRACKER_H_
