#include "libs/kube/client/rate_limiter.h"

#include <algorithm>

namespace capstan::kube {

BootTime RateLimiter::Take(BootTime now) {
  const absl::Duration per_token = absl::Seconds(1) / limit_.per_second;
  full_at_ = std::max(full_at_, now) + per_token;
  return std::max(now, full_at_ - per_token * limit_.burst);
}

}  // namespace capstan::kube
