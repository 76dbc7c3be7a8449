#ifndef CAPSTAN_TOOLS_CAPSTAN_DEV_RESTART_POLICY_H_
#define CAPSTAN_TOOLS_CAPSTAN_DEV_RESTART_POLICY_H_

#include <algorithm>

#include "absl/time/time.h"
#include "libs/time/clock.h"

namespace capstan::dev {

// When a part that ended is started again: at once after a good run, else later and later.
class RestartPolicy {
 public:
  static constexpr absl::Duration kFirst = absl::Milliseconds(100);
  static constexpr absl::Duration kLongest = absl::Seconds(10);
  // A run of so long was a good one.
  static constexpr absl::Duration kGoodRun = absl::Seconds(30);

  void Started(BootTime now) { started_ = now; }

  // The part ended at `now`; the time at which to start it again.
  BootTime Ended(BootTime now) {
    if (now - started_ >= kGoodRun) wait_ = kFirst;
    const BootTime next = now + wait_;
    wait_ = std::min(wait_ * 2, kLongest);
    ++restarts_;
    return next;
  }

  // Ends so far.
  int restarts() const { return restarts_; }

 private:
  BootTime started_;
  absl::Duration wait_ = kFirst;
  int restarts_ = 0;
};

}  // namespace capstan::dev

#endif  // CAPSTAN_TOOLS_CAPSTAN_DEV_RESTART_POLICY_H_
