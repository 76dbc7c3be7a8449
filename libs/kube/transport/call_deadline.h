#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_CALL_DEADLINE_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_CALL_DEADLINE_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/kube/transport/delivery.h"
#include "libs/kube/transport/transport.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// When a call is late, by what its request says. Of the transport's thread.
class CallDeadline {
 public:
  CallDeadline(const HttpRequest& request, BootTime started)
      : timeout_(request.timeout),
        idle_timeout_(request.idle_timeout),
        started_(started),
        last_byte_(started) {}

  // A byte has come, or the handler wants bytes again.
  void Extend(BootTime now) { last_byte_ = now; }
  // Never before, if no byte comes; later if one does.
  BootTime When(const Delivery& delivery) const;
  // Of the whole call; 0 or less: none.
  absl::Duration Left(BootTime now) const { return timeout_ - (now - started_); }
  // DEADLINE_EXCEEDED (kTimedOut): which of the two it was.
  absl::Status Error(BootTime now) const;

 private:
  const absl::Duration timeout_;
  const absl::Duration idle_timeout_;
  const BootTime started_;
  BootTime last_byte_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_CALL_DEADLINE_H_
