#ifndef CAPSTAN_LIBS_AUTH_OPEN_CALLS_H_
#define CAPSTAN_LIBS_AUTH_OPEN_CALLS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "libs/auth/call_tracker.h"
#include "libs/auth/principal.h"
#include "libs/time/clock.h"

namespace capstan::auth {

// The calls of a server that stay open, with who made them. Thread-safe; its lock is never held
// while a call is revoked, so owners may let go of their entries under locks of their own.
class OpenCalls {
 public:
  struct Call {
    Call(Caller caller, auth::Revoke revoke)
        : caller(std::move(caller)), revoke(std::move(revoke)) {}
    const Caller caller;
    const auth::Revoke revoke;
    // On the boot clock, in nanoseconds; 0 while it is not revoked.
    std::atomic<int64_t> revoked_at = 0;
  };

  // An entry until what is returned goes, which may be after this object.
  std::shared_ptr<Call> Add(Caller caller, auth::Revoke revoke);
  // Those open now.
  std::vector<std::shared_ptr<Call>> All() const;
  static void Revoke(Call* call, const absl::Status& why, BootTime now);

 private:
  struct State {
    absl::Mutex mutex;
    int64_t next_id ABSL_GUARDED_BY(mutex) = 1;
    std::map<int64_t, std::weak_ptr<Call>> calls ABSL_GUARDED_BY(mutex);
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_OPEN_CALLS_H_
