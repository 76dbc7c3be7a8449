// Hands one response to its handler by the rules of transport.h, whoever brings its bytes.
#ifndef CAPSTAN_LIBS_KUBE_TRANSPORT_DELIVERY_H_
#define CAPSTAN_LIBS_KUBE_TRANSPORT_DELIVERY_H_

#include <cstddef>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/kube/transport/transport.h"

namespace capstan::kube {

// Shared by the transport and the Call. What the handler does not want yet is held; the owner
// bounds it by what it brings while held() grows.
class Delivery {
 public:
  // `handler` must live until OnEnd has returned or Cancel has.
  explicit Delivery(ResponseHandler* handler) : handler_(handler) {}
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  // Of the transport's one thread. Once done(), they do nothing.
  void Head(HttpHead head);
  void Bytes(absl::string_view bytes);
  // No more comes. The handler is told after what is held.
  void Finish(absl::Status status);
  // The handler is told now; what is held is lost.
  void Abort(absl::Status status);
  // Goes on after Resume was true.
  void Drain();
  // Whether the handler wants no more; no matter what is held.
  bool paused() const;
  // Whether no method of the handler will be called any more.
  bool done() const;
  size_t held() const { return held_.size() - taken_; }
  bool finished() const { return end_.has_value(); }

  // From any thread. True: call Drain on the transport's.
  bool Resume();
  // No method of the handler runs once it has returned, unless it is the handler who calls it.
  // False: the end had been told or was being told, after which the transport drops the call by
  // itself.
  bool Cancel();

 private:
  // False: the handler is not to be called.
  bool Enter();
  void Leave();
  // Gives `bytes` to the handler.
  void Give(absl::string_view bytes);

  ResponseHandler* const handler_;

  // Of the transport's thread alone.
  std::string held_;
  size_t taken_ = 0;
  absl::optional<absl::Status> end_;

  mutable absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread::id thread_ ABSL_GUARDED_BY(mutex_);
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  // Resume was called, and Drain not yet: still paused, as its time counts so long.
  bool resuming_ ABSL_GUARDED_BY(mutex_) = false;
  // In OnBytes; and Resume was called in it.
  bool giving_ ABSL_GUARDED_BY(mutex_) = false;
  bool resumed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_TRANSPORT_DELIVERY_H_
