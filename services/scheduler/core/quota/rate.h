#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_RATE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_RATE_H_

#include <cstdint>

#include "absl/time/time.h"

namespace capstan::scheduler {

inline constexpr int64_t kMaxRateCount = 1'000'000'000;

// `count` things each `period`, and at most `burst` at once after a pause. Count and burst 1 to
// kMaxRateCount, period 1 ns to 24 h.
struct Rate {
  int64_t count = 1;
  absl::Duration period = absl::Seconds(1);
  int64_t burst = 1;

  friend bool operator==(const Rate&, const Rate&) = default;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_RATE_H_
