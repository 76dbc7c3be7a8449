#ifndef CAPSTAN_LIBS_RPC_CLIENT_STREAM_H_
#define CAPSTAN_LIBS_RPC_CLIENT_STREAM_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "libs/rpc/or_else.h"
#include "libs/rpc/session.h"
#include "libs/rpc/status_conversion.h"
#include "libs/strand/strand.h"

namespace capstan::rpc {

// Client side of a server-streaming call. Made by OpenStream. Thread-safe.
template <typename Request, typename T>
class StreamReader final : public std::enable_shared_from_this<StreamReader<Request, T>> {
 public:
  StreamReader(Strand* strand, Request request, SessionCallbacks<T> callbacks)
      : strand_(strand->remote()), request_(std::move(request)), callbacks_(std::move(callbacks)) {}

  // Ends the call; on_closed follows, usually with CANCELLED.
  void Cancel() { context_.TryCancel(); }

  // For OpenStream.
  template <typename Async>
  void Start(Async* async, void (Async::*method)(grpc::ClientContext*, const Request*,
                                                 grpc::ClientReadReactor<T>*)) {
    reactor_ = new Reactor(this->shared_from_this());
    (async->*method)(&context_, &request_, reactor_);
    // Reads are started on the strand, not by the reactor.
    reactor_->AddHold();
    reactor_->StartRead(&incoming_);
    reactor_->StartCall();
  }

 private:
  class Reactor final : public grpc::ClientReadReactor<T> {
   public:
    explicit Reactor(std::shared_ptr<StreamReader> reader) : reader_(std::move(reader)) {}
    void OnReadDone(bool ok) override { reader_->OnReadDone(ok); }
    void OnDone(const grpc::Status& status) override {
      reader_->OnDone(FromGrpcStatus(status));
      delete this;
    }

   private:
    const std::shared_ptr<StreamReader> reader_;
  };

  void OnReadDone(bool ok) {
    if (!ok) {
      reactor_->RemoveHold();
      return;
    }
    auto self = this->shared_from_this();
    strand_.Post(OrElse(
        [self] {
          T message = std::move(self->incoming_);
          self->incoming_.Clear();
          if (self->callbacks_.on_message) self->callbacks_.on_message(std::move(message));
          self->reactor_->StartRead(&self->incoming_);
        },
        [self] {
          self->context_.TryCancel();
          self->reactor_->RemoveHold();
        }));
  }

  void OnDone(const absl::Status& status) {
    auto self = this->shared_from_this();
    strand_.Post(OrElse(
        [self, status] {
          SessionCallbacks<T> callbacks = std::exchange(self->callbacks_, SessionCallbacks<T>());
          if (callbacks.on_closed) callbacks.on_closed(status);
        },
        [self] { self->callbacks_ = SessionCallbacks<T>(); }));
  }

  const Strand::Remote strand_;
  const Request request_;
  grpc::ClientContext context_;
  // Lives until the hold is removed, and nothing uses it afterwards.
  Reactor* reactor_ = nullptr;
  T incoming_;
  SessionCallbacks<T> callbacks_;
};

// Starts a server-streaming call without a deadline; the callbacks run on `strand`, one message at
// a time, the next being read only after on_message returned:
//
//   reader_ = rpc::OpenStream(stub_.get(),
//   &PolicyService::StubInterface::async_interface::WatchPolicy,
//                             WatchPolicyRequest(), strand_, {.on_message = …, .on_closed = …});
template <typename Stub, typename Async, typename Request, typename T>
std::shared_ptr<StreamReader<Request, T>> OpenStream(
    Stub* stub,
    void (Async::*method)(grpc::ClientContext*, const Request*, grpc::ClientReadReactor<T>*),
    Request request, Strand* strand, SessionCallbacks<T> callbacks) {
  auto reader =
      std::make_shared<StreamReader<Request, T>>(strand, std::move(request), std::move(callbacks));
  Async* async = stub->async();
  reader->Start(async, method);
  return reader;
}

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_CLIENT_STREAM_H_
