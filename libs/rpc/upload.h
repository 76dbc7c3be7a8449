#ifndef CAPSTAN_LIBS_RPC_UPLOAD_H_
#define CAPSTAN_LIBS_RPC_UPLOAD_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "libs/auth/access.h"
#include "libs/auth/call_tracker.h"
#include "libs/auth/principal.h"
#include "libs/rpc/admission.h"
#include "libs/rpc/finish.h"
#include "libs/rpc/or_else.h"
#include "libs/rpc/peer.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"

namespace capstan::rpc {

// How much one client may send, and how slowly.
struct UploadLimits {
  // Sum of the messages' sizes; beyond it RESOURCE_EXHAUSTED, reason UPLOAD_TOO_LARGE.
  int64_t max_bytes = int64_t{64} << 20;
  // For each message and for all of them; beyond it DEADLINE_EXCEEDED, reason UPLOAD_TOO_SLOW. The
  // time that the server takes for a message counts for `total` only.
  absl::Duration per_message = absl::Seconds(30);
  absl::Duration total = absl::Hours(1);
};

// Receives the messages of one upload, on the strand. Destroyed there once the call is over for
// whatever reason: what was not finished is undone by the destructor. If the strand stops it is
// destroyed by the thread that lets go of it last.
template <typename Request, typename Response>
class UploadReceiver {
 public:
  using Answer = absl::AnyInvocable<void(absl::StatusOr<Response>)>;

  virtual ~UploadReceiver() = default;
  // A message after the first. The next one is read only after this returned, so that a slow
  // receiver slows its client. An error ends the call.
  virtual absl::Status Take(const Request& message) = 0;
  // Nothing follows: the client has sent everything, or is gone, which gRPC may tell too late for
  // this call not to be made. Whether all is there must show in what was sent. `answer` ends the
  // call, from any thread; destroyed uncalled it answers UNAVAILABLE.
  virtual void End(Answer answer) = 0;
};

// Server side of a client-streaming call. Made by HandleUpload.
template <typename Request, typename Response>
class Upload final : public std::enable_shared_from_this<Upload<Request, Response>> {
 public:
  using Receiver = UploadReceiver<Request, Response>;
  using Open = absl::AnyInvocable<absl::StatusOr<std::unique_ptr<Receiver>>(const auth::Caller&,
                                                                            const Request&)>;

  Upload(auth::Peer peer, auth::Access* access, absl::string_view method, Response* response,
         Strand* strand, UploadLimits limits, Open open)
      : peer_(std::move(peer)),
        access_(access),
        method_(method),
        response_(response),
        strand_(strand),
        remote_(strand->remote()),
        limits_(limits),
        open_(std::move(open)) {}

  // For HandleUpload; once.
  grpc::ServerReadReactor<Request>* Start() {
    auto* reactor = new Reactor(this->shared_from_this());
    {
      absl::MutexLock lock(&mutex_);
      reactor_ = reactor;
    }
    Run([this] {
      must_end_by_ = strand_->clock().Read().boot + limits_.total;
      ReadNext();
    });
    return reactor;
  }

 private:
  class Reactor final : public grpc::ServerReadReactor<Request> {
   public:
    explicit Reactor(std::shared_ptr<Upload> upload) : upload_(std::move(upload)) {}
    void OnReadDone(bool ok) override { upload_->OnReadDone(ok); }
    void OnCancel() override { upload_->Finish(absl::CancelledError("The client is gone.")); }
    void OnDone() override {
      upload_->OnDone();
      delete this;
    }

   private:
    const std::shared_ptr<Upload> upload_;
  };

  // Ends the call. Later uses are ignored.
  void Finish(absl::StatusOr<Response> result) {
    absl::MutexLock lock(&mutex_);
    if (finished_) return;
    finished_ = true;
    const grpc::Status status = ToGrpcStatus(result.status());
    if (result.ok()) *response_ = *std::move(result);
    reactor_->Finish(status);
  }

  // Runs `task` on the strand; a strand that stops ends the call.
  template <typename Task>
  void Run(Task task) {
    auto self = this->shared_from_this();
    remote_.Post(
        OrElse([self, task = std::move(task)]() mutable { task(); },
               [self] { self->Finish(absl::UnavailableError("The server is stopping.")); }));
  }

  void ReadNext() {
    const BootTime deadline =
        std::min(strand_->clock().Read().boot + limits_.per_message, must_end_by_);
    timer_ = strand_->RunAt(deadline, [weak = this->weak_from_this()] {
      if (const auto self = weak.lock()) self->TooSlow();
    });
    absl::MutexLock lock(&mutex_);
    if (finished_) return;
    reading_ = true;
    reactor_->StartRead(&incoming_);
  }

  void TooSlow() {
    timer_ = 0;
    {
      // A message that has come, but not to the strand, is in time.
      absl::MutexLock lock(&mutex_);
      if (!reading_) return;
    }
    Finish(status::Error(absl::StatusCode::kDeadlineExceeded, "UPLOAD_TOO_SLOW",
                         "The client sends too slowly."));
  }

  void OnReadDone(bool ok) {
    {
      absl::MutexLock lock(&mutex_);
      reading_ = false;
    }
    Run([this, ok] { Received(ok); });
  }

  void Received(bool ok) {
    strand_->Cancel(std::exchange(timer_, 0));
    {
      absl::MutexLock lock(&mutex_);
      if (finished_) return;
    }
    if (!ok) return Ended();
    absl::Status taken = Take();
    if (!taken.ok()) return Finish(std::move(taken));
    ReadNext();
  }

  absl::Status Take() {
    received_bytes_ += static_cast<int64_t>(incoming_.ByteSizeLong());
    if (received_bytes_ > limits_.max_bytes) {
      return status::Error(absl::StatusCode::kResourceExhausted, "UPLOAD_TOO_LARGE",
                           "The client sends more than is taken.");
    }
    if (receiver_ == nullptr) return Begin();
    CAPSTAN_RETURN_IF_ERROR(access_->Recheck(*caller_));
    return receiver_->Take(incoming_);
  }

  absl::Status Begin() {
    CAPSTAN_ASSIGN_OR_RETURN(caller_, access_->Authorize(peer_, method_, &incoming_));
    CAPSTAN_ASSIGN_OR_RETURN(ticket_, Admit(*caller_, Admission::Kind::kStream));
    // A client that sends nothing is bounded by `per_message` anyway; this is sooner.
    tracked_ = auth::TrackCall(access_, *caller_,
                               [weak = this->weak_from_this()](const absl::Status& why) {
                                 if (const auto self = weak.lock()) self->Finish(why);
                               });
    CAPSTAN_ASSIGN_OR_RETURN(receiver_, open_(*caller_, incoming_));
    return absl::OkStatus();
  }

  void Ended() {
    absl::Status allowed;
    if (receiver_ == nullptr) {
      incoming_.Clear();
      allowed = Begin();
    } else {
      allowed = access_->Recheck(*caller_);
    }
    if (!allowed.ok()) return Finish(std::move(allowed));
    auto self = this->shared_from_this();
    rpc::Finish unless_dropped([self](const absl::Status& status) {
      if (!status.ok()) self->Finish(status);
    });
    receiver_->End([self, unless_dropped =
                              std::move(unless_dropped)](absl::StatusOr<Response> result) mutable {
      self->Finish(std::move(result));
      unless_dropped(absl::OkStatus());
    });
  }

  void OnDone() {
    // Unlike the other tasks this one may be dropped: the last reference takes the receiver along.
    remote_.Post([self = this->shared_from_this()] {
      self->strand_->Cancel(std::exchange(self->timer_, 0));
      self->receiver_ = nullptr;
      self->tracked_ = nullptr;
      self->ticket_ = Admission::Ticket();
    });
  }

  const auth::Peer peer_;
  auth::Access* const access_;
  const std::string method_;
  Response* const response_;
  // For its timers and clock: used on the strand only, which may go before the call is over.
  Strand* const strand_;
  const Strand::Remote remote_;
  const UploadLimits limits_;
  // From here to the mutex: touched on the strand only, the message being read excepted.
  Open open_;
  absl::optional<auth::Caller> caller_;
  std::shared_ptr<void> tracked_;
  Admission::Ticket ticket_;
  std::unique_ptr<Receiver> receiver_;
  Request incoming_;
  int64_t received_bytes_ = 0;
  Strand::TimerId timer_ = 0;
  BootTime must_end_by_;
  absl::Mutex mutex_;
  // Used only before the call is finished.
  Reactor* reactor_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

// Answers a client-streaming call: reads the first message, which names what the call is about;
// authorises the caller by it and admits it; runs `open`; then gives the receiver what follows. The
// right is checked again with each message. A call that ends without any message is treated as one
// whose first is empty.
//
//   open  absl::StatusOr<std::unique_ptr<UploadReceiver<Request, Response>>>(
//             const auth::Caller&, const Request& first)
//         On the strand, only for callers who are allowed; validates `first`.
//
// Memory: one message. `strand` may block, as one for disks does; messages wait with their client.
template <typename Request, typename Response, typename OpenFn>
grpc::ServerReadReactor<Request>* HandleUpload(grpc::CallbackServerContext* context,
                                               auth::Access* access, absl::string_view method,
                                               Response* response, Strand* strand,
                                               UploadLimits limits, OpenFn open) {
  return std::make_shared<Upload<Request, Response>>(PeerOf(*context), access, method, response,
                                                     strand, limits, std::move(open))
      ->Start();
}

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_UPLOAD_H_
