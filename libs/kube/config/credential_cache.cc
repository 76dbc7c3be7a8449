#include "libs/kube/config/credential_cache.h"

#include <algorithm>
#include <utility>

#include "libs/status/error.h"

namespace capstan::kube {

bool CredentialCache::IsFresh(const Now& now) const {
  return !rejected_ && now.boot - held_since_ < options_.fresh_for &&
         held_->expires - margin_ > now.wall;
}

absl::Duration CredentialCache::Wait(int times) const {
  absl::Duration wait = options_.first_wait;
  for (int i = 1; i < times && wait < options_.longest_wait; ++i) wait *= 2;
  return std::min(wait, options_.longest_wait);
}

CredentialCache::Answer CredentialCache::Ask(const Now& now) const {
  if (held_.has_value() && IsFresh(now)) return Answer::kGive;
  if (now.boot >= not_before_) return Answer::kFetch;
  if (held_.has_value() && !HasExpired(now)) return Answer::kGive;
  // Without an error it has expired sooner than a rejected one may be replaced.
  return error_.ok() ? Answer::kFetch : Answer::kRefuse;
}

void CredentialCache::Fetched(absl::StatusOr<FetchedCredential> result, const Now& now) {
  if (!result.ok()) {
    error_ = std::move(result).status();
    ++failures_;
    not_before_ = now.boot + Wait(failures_);
    return;
  }
  error_ = absl::OkStatus();
  failures_ = 0;
  not_before_ = now.boot;
  held_ = *std::move(result);
  held_since_ = now.boot;
  margin_ = std::min(options_.margin, (held_->expires - now.wall) / 5);
  rejected_ = false;
}

void CredentialCache::Rejected(const Credential& credential, const Now& now) {
  // Requests that were sent together are all answered so: one rejection counts.
  if (!held_.has_value() || rejected_ || !(held_->credential == credential)) return;
  rejected_ = true;
  if (now.boot - last_rejection_ > 2 * options_.longest_wait) rejections_ = 0;
  last_rejection_ = now.boot;
  if (++rejections_ > 1) {
    not_before_ = std::max(not_before_, held_since_ + Wait(rejections_ - 1));
  } else if (failures_ == 0) {
    not_before_ = now.boot;
  }
}

absl::Status CredentialCache::Error(const Now& now) const {
  return status::WithRetryDelay(error_, std::max(not_before_ - now.boot, absl::ZeroDuration()));
}

}  // namespace capstan::kube
