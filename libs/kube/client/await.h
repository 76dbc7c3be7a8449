#ifndef CAPSTAN_LIBS_KUBE_CLIENT_AWAIT_H_
#define CAPSTAN_LIBS_KUBE_CLIENT_AWAIT_H_

#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "libs/kube/client/client.h"
#include "libs/status/error.h"
#include "libs/strand/notify_when_gone.h"
#include "libs/strand/strand.h"

namespace capstan::kube {

// Starts a call on the strand and waits for its end; never from a task of the strand. `start` gets
// the callback that it must give to the call. CANCELLED with reason kClientStopped if the strand
// stops, or the client goes, before the end: once both have gone nobody waits any longer.
//
//   absl::StatusOr<ApiResponse> response = Await<ApiResponse>(
//       client.strand(), [&](auto done) { return client.Start(request, std::move(done)); });
template <typename T>
absl::StatusOr<T> Await(
    Strand* strand,
    absl::AnyInvocable<std::unique_ptr<PendingCall>(absl::AnyInvocable<void(absl::StatusOr<T>)>)>
        start) {
  struct Waiting {
    absl::Notification done;
    absl::StatusOr<T> result = status::Error(
        absl::StatusCode::kCancelled, kClientStopped,
        "the Kubernetes client stopped before the call ended; the server may have acted");
    std::unique_ptr<PendingCall> call;
  };
  const auto waiting = std::make_shared<Waiting>();
  NotifyWhenGone release(&waiting->done);
  strand->Post([waiting, release = std::move(release), start = std::move(start)]() mutable {
    waiting->call =
        start([waiting, release = std::move(release)](absl::StatusOr<T> result) mutable {
          waiting->result = std::move(result);
          waiting->call.reset();
        });
  });
  waiting->done.WaitForNotification();
  return std::move(waiting->result);
}

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CLIENT_AWAIT_H_
