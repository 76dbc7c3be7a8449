#include "libs/kube/client/retry.h"

#include <algorithm>
#include <string>

#include "libs/kube/client/server_error.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

bool Allowed(const absl::Status& failure, Repeat repeat) {
  const std::string reason = status::Reason(failure);
  if (reason == kNotSent) return true;
  if (reason == kTooManyRequests && RetryAfter(failure).has_value()) return true;
  if (repeat == Repeat::kHarmful) return false;
  const int http_status = HttpStatusOf(failure);
  return reason == kBroken || reason == kTimedOut || reason == kTooManyRequests ||
         (http_status >= 500 && http_status != 501);
}

}  // namespace

absl::optional<BootTime> RetryPolicy::OnFailure(const absl::Status& failure, Repeat repeat,
                                                int attempts, BootTime now, BootTime deadline) {
  if (attempts >= options_.max_attempts || !Allowed(failure, repeat)) return absl::nullopt;
  if (budget_ < options_.successes_per_retry) return absl::nullopt;
  absl::Duration most = options_.initial_backoff;
  for (int i = 1; i < attempts && most < options_.max_backoff; ++i) most *= 2;
  most = std::min(most, options_.max_backoff);
  absl::Duration wait = random_->Between(absl::ZeroDuration(), most);
  if (const auto after = RetryAfter(failure)) {
    wait = std::max(wait, *after + random_->Between(absl::ZeroDuration(), *after / 2));
  }
  const BootTime when = now + wait;
  if (when >= deadline) return absl::nullopt;
  budget_ -= options_.successes_per_retry;
  return when;
}

void RetryPolicy::OnSuccess() { budget_ = std::min(FullBudget(), budget_ + 1); }

}  // namespace capstan::kube
