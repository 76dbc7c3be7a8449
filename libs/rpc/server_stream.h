#ifndef CAPSTAN_LIBS_RPC_SERVER_STREAM_H_
#define CAPSTAN_LIBS_RPC_SERVER_STREAM_H_

#include <deque>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "libs/auth/access.h"
#include "libs/auth/call_tracker.h"
#include "libs/auth/principal.h"
#include "libs/rpc/admission.h"
#include "libs/rpc/limits.h"
#include "libs/rpc/peer.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "libs/strand/strand.h"

namespace capstan::rpc {

// Server side of a server-streaming call: a bounded queue in front of a peer that may be slow.
// Thread-safe. The caller's right is checked again with every message, and the call is ended when
// the right is taken away.
template <typename T>
class ServerStreamWriter {
 public:
  ServerStreamWriter(auth::Access* access, auth::Caller caller)
      : access_(access), caller_(std::move(caller)) {}

  const auth::Caller& caller() const { return caller_; }

  // Queues a message. Errors; the message is not queued then:
  //   RESOURCE_EXHAUSTED  the queue is over its bound: merge, wait for NotifyDrained, or Finish
  //                       with ABORTED. An empty queue takes any message.
  //   CANCELLED           the call is over.
  //   PERMISSION_DENIED…  the caller's right is gone; the call ends with that status.
  absl::Status Write(T message);

  // Ends the call with `status` after what is queued was sent. Later uses are ignored.
  void Finish(const absl::Status& status);
  // Ends the call with `why` without sending what is queued. Again: breaks it off.
  void Revoke(const absl::Status& why);

  size_t queued_bytes() const {
    absl::MutexLock lock(&mutex_);
    return queued_bytes_;
  }

  // Posts `task` once the call is over for whatever reason, at once if it is. One at a time.
  void NotifyClosed(Strand* strand, Strand::Task task);
  // Posts `task` once the queue is empty, at once if it is; never after the call is over. One at a
  // time.
  void NotifyDrained(Strand* strand, Strand::Task task);

  // For HandleServerStream. The reactor keeps `self` alive until the call is over.
  static grpc::ServerWriteReactor<T>* MakeReactor(std::shared_ptr<ServerStreamWriter> self,
                                                  grpc::CallbackServerContext* context) {
    auto* reactor = new Reactor(self);
    absl::MutexLock lock(&self->mutex_);
    self->reactor_ = reactor;
    self->context_ = context;
    return reactor;
  }
  // For HandleServerStream, of a caller who is admitted.
  static void Track(const std::shared_ptr<ServerStreamWriter>& self, Admission::Ticket ticket) {
    std::shared_ptr<void> tracked =
        auth::TrackCall(self->access_, self->caller_,
                        [weak = std::weak_ptr<ServerStreamWriter>(self)](const absl::Status& why) {
                          if (const auto writer = weak.lock()) writer->Revoke(why);
                        });
    absl::MutexLock lock(&self->mutex_);
    if (self->reactor_ == nullptr) return;
    self->tracked_ = std::move(tracked);
    self->ticket_ = std::move(ticket);
  }

 private:
  class Reactor final : public grpc::ServerWriteReactor<T> {
   public:
    explicit Reactor(std::shared_ptr<ServerStreamWriter> writer) : writer_(std::move(writer)) {}
    void OnWriteDone(bool ok) override { writer_->OnWriteDone(ok); }
    void OnCancel() override { writer_->OnCancel(); }
    void OnDone() override {
      writer_->OnDone();
      delete this;
    }

   private:
    const std::shared_ptr<ServerStreamWriter> writer_;
  };

  struct Notice {
    absl::optional<Strand::Remote> strand;
    Strand::Task task;
    void Fire() {
      if (strand.has_value()) strand->Post(std::move(task));
      strand.reset();
    }
  };

  void OnWriteDone(bool ok);
  void OnCancel();
  void OnDone();
  // Sends the next message, or the status if it is time.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All but the message being sent, which is kept until OnWriteDone.
  void TrimQueue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (queue_.size() > (sending_ ? 1 : 0)) {
      queued_bytes_ -= queue_.back().ByteSizeLong();
      queue_.pop_back();
    }
  }
  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finishing_) return;
    finishing_ = true;
    status_ = status;
    Advance();
  }

  auth::Access* const access_;
  const auth::Caller caller_;
  mutable absl::Mutex mutex_;
  // Both null once the call is over.
  Reactor* reactor_ ABSL_GUARDED_BY(mutex_) = nullptr;
  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::shared_ptr<void> tracked_ ABSL_GUARDED_BY(mutex_);
  Admission::Ticket ticket_ ABSL_GUARDED_BY(mutex_);
  bool revoked_ ABSL_GUARDED_BY(mutex_) = false;
  // The front is being sent while `sending_`.
  std::deque<T> queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  Notice closed_ ABSL_GUARDED_BY(mutex_);
  Notice drained_ ABSL_GUARDED_BY(mutex_);
};

// Answers a server-streaming call: authorise, admit, validate, then
// `open(shared_ptr<ServerStreamWriter>, const Request&)`, which must keep the writer and may use it
// from any thread. The request lives only during `open`.
template <typename T, typename Request, typename Validate, typename Open>
grpc::ServerWriteReactor<T>* HandleServerStream(grpc::CallbackServerContext* context,
                                                auth::Access* access, absl::string_view method,
                                                const Request* request, Validate validate,
                                                Open open) {
  absl::StatusOr<auth::Caller> caller = access->Authorize(PeerOf(*context), method, request);
  absl::StatusOr<Admission::Ticket> ticket = Admit(caller, Admission::Kind::kStream);
  absl::Status status = ticket.status();
  if (status.ok()) status = validate(*request);
  auto writer = std::make_shared<ServerStreamWriter<T>>(
      access, caller.ok() ? *std::move(caller) : auth::Caller());
  grpc::ServerWriteReactor<T>* reactor = ServerStreamWriter<T>::MakeReactor(writer, context);
  if (status.ok()) {
    ServerStreamWriter<T>::Track(writer, *std::move(ticket));
    open(std::move(writer), *request);
  } else {
    writer->Finish(status);
  }
  return reactor;
}

template <typename T>
absl::Status ServerStreamWriter<T>::Write(T message) {
  const absl::Status allowed = access_->Recheck(caller_);
  const size_t size = message.ByteSizeLong();
  absl::MutexLock lock(&mutex_);
  if (reactor_ == nullptr || finishing_) return absl::CancelledError("The stream is over.");
  if (!allowed.ok()) {
    FinishLocked(allowed);
    return allowed;
  }
  if (!queue_.empty() && queued_bytes_ + size > kMaxQueuedBytes) {
    return status::Error(absl::StatusCode::kResourceExhausted, "STREAM_FULL",
                         "The peer reads too slowly.");
  }
  queue_.push_back(std::move(message));
  queued_bytes_ += size;
  if (!sending_) Advance();
  return absl::OkStatus();
}

template <typename T>
void ServerStreamWriter<T>::Finish(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (reactor_ != nullptr) FinishLocked(status);
}

template <typename T>
void ServerStreamWriter<T>::Revoke(const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  if (reactor_ == nullptr) return;
  TrimQueue();
  // gRPC carries the cancellation out on a thread of its own, so it takes no lock of ours here.
  if (revoked_) context_->TryCancel();
  revoked_ = true;
  FinishLocked(why);
}

template <typename T>
void ServerStreamWriter<T>::NotifyClosed(Strand* strand, Strand::Task task) {
  absl::MutexLock lock(&mutex_);
  closed_ = {strand->remote(), std::move(task)};
  if (reactor_ == nullptr) closed_.Fire();
}

template <typename T>
void ServerStreamWriter<T>::NotifyDrained(Strand* strand, Strand::Task task) {
  absl::MutexLock lock(&mutex_);
  drained_ = {strand->remote(), std::move(task)};
  if (reactor_ != nullptr && queue_.empty()) drained_.Fire();
}

template <typename T>
void ServerStreamWriter<T>::Advance() {
  if (sending_ || finished_ || reactor_ == nullptr) return;
  if (!queue_.empty()) {
    sending_ = true;
    reactor_->StartWrite(&queue_.front());
    return;
  }
  if (finishing_) {
    finished_ = true;
    reactor_->Finish(ToGrpcStatus(status_));
  }
}

template <typename T>
void ServerStreamWriter<T>::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  sending_ = false;
  if (ok) {
    queued_bytes_ -= queue_.front().ByteSizeLong();
    queue_.pop_front();
    if (queue_.empty()) drained_.Fire();
  } else {
    queue_.clear();
    queued_bytes_ = 0;
    FinishLocked(absl::CancelledError("The peer is gone."));
  }
  Advance();
}

template <typename T>
void ServerStreamWriter<T>::OnCancel() {
  absl::MutexLock lock(&mutex_);
  TrimQueue();
  FinishLocked(absl::CancelledError("The peer cancelled."));
  Advance();
}

template <typename T>
void ServerStreamWriter<T>::OnDone() {
  absl::MutexLock lock(&mutex_);
  reactor_ = nullptr;
  context_ = nullptr;
  tracked_ = nullptr;
  ticket_ = Admission::Ticket();
  queue_.clear();
  queued_bytes_ = 0;
  drained_ = Notice();
  closed_.Fire();
}

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_SERVER_STREAM_H_
