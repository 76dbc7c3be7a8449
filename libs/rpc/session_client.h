#ifndef CAPSTAN_LIBS_RPC_SESSION_CLIENT_H_
#define CAPSTAN_LIBS_RPC_SESSION_CLIENT_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "libs/rpc/call.h"
#include "libs/rpc/session.h"
#include "libs/rpc/status_conversion.h"
#include "libs/strand/strand.h"

namespace capstan::rpc {

// Client end of a session.
template <typename Up, typename Down>
class ClientSession final : public Session<Down, Up> {
 public:
  explicit ClientSession(Strand* strand) : Session<Down, Up>(strand) {}

  // For OpenSession.
  template <typename Async>
  static void Start(std::shared_ptr<ClientSession> self, Async* async,
                    void (Async::*method)(grpc::ClientContext*, grpc::ClientBidiReactor<Up, Down>*),
                    const CallOptions& options, SessionCallbacks<Down> callbacks) {
    Apply(options, self->context_);
    auto* reactor = new Reactor(self);
    {
      absl::MutexLock lock(&self->mutex_);
      self->reactor_ = reactor;
    }
    (async->*method)(&self->context_, reactor);
    // Messages are sent and read from threads that are not the reactor's.
    reactor->AddHold();
    self->held_ = true;
    reactor->StartCall();
    self->Open(std::move(callbacks));
  }

 private:
  class Reactor final : public grpc::ClientBidiReactor<Up, Down> {
   public:
    explicit Reactor(std::shared_ptr<ClientSession> session) : session_(std::move(session)) {}
    void OnReadDone(bool ok) override { session_->OnReadDone(ok); }
    void OnWriteDone(bool ok) override { session_->OnWriteDone(ok); }
    void OnDone(const grpc::Status& status) override {
      session_->OnDone(status);
      delete this;
    }

   private:
    const std::shared_ptr<ClientSession> session_;
  };

  // Also after our side was closed: the server may still send.
  bool CanReadLocked() const override { return held_; }
  void StartReadLocked(Down* message) override { reactor_->StartRead(message); }
  void StartWriteLocked(const Up* message) override { reactor_->StartWrite(message); }
  void EndLocked(const absl::Status& status) override {
    if (status.ok()) {
      reactor_->StartWritesDone();
    } else {
      context_.TryCancel();
    }
  }
  void OnReadsEnd() override {
    // The call is over, or was cancelled: let it wind up, once.
    absl::MutexLock lock(&this->mutex_);
    this->AbandonLocked();
    if (!held_) return;
    held_ = false;
    reactor_->RemoveHold();
  }

  void OnDone(const grpc::Status& status) {
    {
      absl::MutexLock lock(&this->mutex_);
      reactor_ = nullptr;
    }
    this->OnOver(FromGrpcStatus(status));
  }

  grpc::ClientContext context_;
  Reactor* reactor_ = nullptr;
  bool held_ = false;
};

// Opens a session and returns it; call it on `strand`, where the callbacks run:
//
//   session_ = rpc::OpenSession(stub_.get(),
//   &ExecutorSession::StubInterface::async_interface::Connect,
//                               strand_, {.on_message = …, .on_closed = …});
//
// Without a connection, on_closed gets UNAVAILABLE. Sessions have no deadline unless `options` says
// so: keepalive finds a dead peer within 40 s. The session may be dropped, but goes on until
// Finish.
template <typename Stub, typename Async, typename Up, typename Down>
std::shared_ptr<Session<Down, Up>> OpenSession(
    Stub* stub, void (Async::*method)(grpc::ClientContext*, grpc::ClientBidiReactor<Up, Down>*),
    Strand* strand, SessionCallbacks<Down> callbacks,
    const CallOptions& options = {.deadline = absl::InfiniteDuration()}) {
  auto session = std::make_shared<ClientSession<Up, Down>>(strand);
  Async* async = stub->async();
  ClientSession<Up, Down>::Start(session, async, method, options, std::move(callbacks));
  return session;
}

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_SESSION_CLIENT_H_
