#ifndef CAPSTAN_LIBS_RPC_UPLOAD_H_
#define CAPSTAN_LIBS_RPC_UPLOAD_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "libs/auth/access.h"
#include "libs/auth/principal.h"
#include "libs/rpc/or_else.h"
#include "libs/rpc/peer.h"
#include "libs/rpc/status_conversion.h"
#include "libs/strand/strand.h"

namespace capstan::rpc {

// What the owner of an upload is told, on its strand. After on_closed nothing is called any more.
template <typename Request>
struct UploadCallbacks {
  // One message at a time; the next is read only after this returned.
  absl::AnyInvocable<void(Request)> on_message;
  // The client has sent everything: answer with Finish.
  absl::AnyInvocable<void()> on_end;
  // Once, when the call is over: the status it ended with, CANCELLED if the client went away.
  absl::AnyInvocable<void(const absl::Status&)> on_closed;
};

// Server side of a client-streaming call. Made by HandleUpload. Thread-safe.
template <typename Request, typename Response>
class Upload final : public std::enable_shared_from_this<Upload<Request, Response>> {
 public:
  Upload(Strand* strand, auth::Access* access, auth::Caller caller, Response* response)
      : strand_(strand->remote()),
        access_(access),
        caller_(std::move(caller)),
        response_(response) {}

  const auth::Caller& caller() const { return caller_; }

  // Ends the call with an answer or an error, also before all was read. Later uses are ignored.
  void Finish(absl::StatusOr<Response> result) {
    absl::MutexLock lock(&mutex_);
    if (finished_) return;
    finished_ = true;
    status_ = result.status();
    if (result.ok()) *response_ = *std::move(result);
    reactor_->Finish(ToGrpcStatus(status_));
  }

  // For HandleUpload.
  static grpc::ServerReadReactor<Request>* MakeReactor(std::shared_ptr<Upload> self) {
    self->reactor_ = new Reactor(self);
    return self->reactor_;
  }
  void Open(UploadCallbacks<Request> callbacks) {
    callbacks_ = std::move(callbacks);
    ReadNext();
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

  void ReadNext() {
    absl::MutexLock lock(&mutex_);
    if (!finished_) reactor_->StartRead(&incoming_);
  }

  void OnReadDone(bool ok) {
    absl::Status allowed = access_->Recheck(caller_);
    if (!allowed.ok()) {
      Finish(std::move(allowed));
      return;
    }
    auto self = this->shared_from_this();
    strand_.Post(OrElse(
        [self, ok] {
          if (!ok) {
            if (self->callbacks_.on_end) self->callbacks_.on_end();
            return;
          }
          Request message = std::move(self->incoming_);
          self->incoming_.Clear();
          if (self->callbacks_.on_message) self->callbacks_.on_message(std::move(message));
          self->ReadNext();
        },
        [self] { self->Finish(absl::UnavailableError("The server is stopping.")); }));
  }

  void OnDone() {
    absl::Status status;
    {
      absl::MutexLock lock(&mutex_);
      status = status_;
    }
    auto self = this->shared_from_this();
    strand_.Post(OrElse(
        [self, status] {
          UploadCallbacks<Request> callbacks =
              std::exchange(self->callbacks_, UploadCallbacks<Request>());
          if (callbacks.on_closed) callbacks.on_closed(status);
        },
        [self] { self->callbacks_ = UploadCallbacks<Request>(); }));
  }

  const Strand::Remote strand_;
  auth::Access* const access_;
  const auth::Caller caller_;
  Response* const response_;
  // Used only before the call is finished.
  Reactor* reactor_ = nullptr;
  Request incoming_;
  // Touched on the strand only.
  UploadCallbacks<Request> callbacks_;
  absl::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// Answers a client-streaming call: authorises the caller, then runs `open` on the strand, which
// takes a std::shared_ptr<Upload<Request, Response>> and returns UploadCallbacks<Request>.
template <typename Request, typename Response, typename OpenFn>
grpc::ServerReadReactor<Request>* HandleUpload(grpc::CallbackServerContext* context,
                                               auth::Access* access, absl::string_view method,
                                               Response* response, Strand* strand, OpenFn open) {
  absl::StatusOr<auth::Caller> caller = access->Authorize(PeerOf(*context), method, nullptr);
  const absl::Status status = caller.status();
  auto upload = std::make_shared<Upload<Request, Response>>(
      strand, access, caller.ok() ? *std::move(caller) : auth::Caller(), response);
  grpc::ServerReadReactor<Request>* reactor = Upload<Request, Response>::MakeReactor(upload);
  if (!status.ok()) {
    upload->Finish(status);
    return reactor;
  }
  strand->Post(
      OrElse([upload, open = std::move(open)]() mutable { upload->Open(open(upload)); },
             [upload] { upload->Finish(absl::UnavailableError("The server is stopping.")); }));
  return reactor;
}

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_UPLOAD_H_
