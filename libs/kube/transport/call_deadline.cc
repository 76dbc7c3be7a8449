#include "libs/kube/transport/call_deadline.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube {

BootTime CallDeadline::When(const Delivery& delivery) const {
  const BootTime whole = started_ + timeout_;
  if (delivery.finished() || delivery.paused()) return whole;
  return std::min(whole, last_byte_ + idle_timeout_);
}

absl::Status CallDeadline::Error(BootTime now) const {
  const bool whole = now >= started_ + timeout_;
  return status::Error(absl::StatusCode::kDeadlineExceeded, kTimedOut,
                       whole ? absl::StrCat("the API server has not answered within ",
                                            absl::FormatDuration(timeout_))
                             : absl::StrCat("nothing came from the API server for ",
                                            absl::FormatDuration(idle_timeout_)));
}

}  // namespace capstan::kube
