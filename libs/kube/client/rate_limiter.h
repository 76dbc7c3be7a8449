#ifndef CAPSTAN_LIBS_KUBE_CLIENT_RATE_LIMITER_H_
#define CAPSTAN_LIBS_KUBE_CLIENT_RATE_LIMITER_H_

#include "absl/time/time.h"
#include "libs/time/clock.h"

namespace capstan::kube {

struct RateLimit {
  // On average; above 0.
  double per_second = 0;
  // At once; at least 1.
  double burst = 1;
};

// A bucket of tokens, filled at a rate, that are promised in the order in which they are asked for:
// over any span of t seconds at most burst + per_second · t are used. Off unless somebody asks: the
// server's priority and fairness sheds better than a guess on this side. Pure; for one thread.
class RateLimiter {
 public:
  explicit RateLimiter(RateLimit limit) : limit_(limit) {}

  // Takes one token; returns when it may be used: `now`, or later. `now` never goes back.
  BootTime Take(BootTime now);

 private:
  const RateLimit limit_;
  // When the bucket would be full if nobody took more. That is all its state (GCRA).
  BootTime full_at_ = BootTime::InfinitePast();
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CLIENT_RATE_LIMITER_H_
