#include "libs/auth/call_tracker.h"

#include <utility>

namespace capstan::auth {

std::shared_ptr<void> TrackCall(Access* access, const Caller& caller, Revoke revoke) {
  auto* const tracker = dynamic_cast<CallTracker*>(access);
  return tracker == nullptr ? nullptr : tracker->Track(caller, std::move(revoke));
}

}  // namespace capstan::auth
