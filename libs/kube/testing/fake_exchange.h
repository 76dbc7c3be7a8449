// One call to a fake API server: from the server's side, a queue of what the handler is to be told.
#ifndef CAPSTAN_LIBS_KUBE_TESTING_FAKE_EXCHANGE_H_
#define CAPSTAN_LIBS_KUBE_TESTING_FAKE_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/kube/transport/transport.h"

namespace capstan::kube::testing {

// Keeps the promises of Call and ResponseHandler about who calls what and when. Thread-safe.
class FakeExchange {
 public:
  // `woken` is called, from any thread and without locks, when the handler wants bytes again.
  FakeExchange(HttpRequest request, ResponseHandler* handler, std::function<void()> woken)
      : request_(std::move(request)), handler_(handler), woken_(std::move(woken)) {}

  const HttpRequest& request() const { return request_; }

  // What the handler is to be told next; nothing after an end counts.
  void PushHead(HttpHead head);
  void PushBytes(std::string bytes);
  void PushEnd(absl::Status status);
  // Forgets what is queued and ends at once, also if the handler is paused.
  void Break(absl::Status status);

  // Tells the handler what is queued, until it wants no more. Of each piece at most `most` bytes
  // are told; then it returns, and true says that there are more. From one thread at a time.
  bool Deliver(size_t most);

  // Of the call's.
  void Cancel();
  void Resume();

  // The handler is to be told nothing more.
  bool done() const;
  // No bytes are queued and the handler is not paused: more can be had for it.
  bool hungry() const;
  // How often the handler was called.
  int64_t told() const;
  bool paused() const;

 private:
  struct Step {
    absl::optional<HttpHead> head;
    std::string bytes;
    absl::optional<absl::Status> end;
  };
  // Calls the handler without the lock.
  void Tell(Step step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool CanTell() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !cancelled_ && !ended_ && !in_handler_;
  }

  const HttpRequest request_;
  ResponseHandler* const handler_;
  const std::function<void()> woken_;
  mutable absl::Mutex mutex_;
  std::deque<Step> steps_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t told_ ABSL_GUARDED_BY(mutex_) = 0;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  // Its end does not wait for a handler that is paused.
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  // Resume was called in OnBytes, whose false then counts not.
  bool resumed_ ABSL_GUARDED_BY(mutex_) = false;
  bool in_handler_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread::id teller_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_LIBS_KUBE_TESTING_FAKE_EXCHANGE_H_
