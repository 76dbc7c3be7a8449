#include "libs/rpc/backoff.h"

#include <algorithm>

namespace capstan::rpc {

absl::Duration Backoff::Next() {
  const absl::Duration ceiling = std::min(current_, config_.max);
  current_ = std::min(ceiling * 2, config_.max);
  return random_->Between(ceiling / 2, ceiling + absl::Nanoseconds(1));
}

void Reconnect::Lost() {
  if (timer_ != 0) return;
  timer_ = strand_->RunAfter(backoff_.Next(), [this] {
    timer_ = 0;
    connect_();
  });
}

void Reconnect::Stop() {
  if (timer_ != 0) strand_->Cancel(timer_);
  timer_ = 0;
}

}  // namespace capstan::rpc
