#ifndef CAPSTAN_LIBS_RPC_SESSION_SERVER_H_
#define CAPSTAN_LIBS_RPC_SESSION_SERVER_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "libs/auth/access.h"
#include "libs/auth/call_tracker.h"
#include "libs/auth/principal.h"
#include "libs/rpc/admission.h"
#include "libs/rpc/or_else.h"
#include "libs/rpc/peer.h"
#include "libs/rpc/session.h"
#include "libs/rpc/status_conversion.h"
#include "libs/strand/strand.h"

namespace capstan::rpc {

// Server end of a session. The caller's right is checked again with each message either way, and
// the session is ended when the right is taken away.
template <typename Up, typename Down>
class ServerSession final : public Session<Up, Down> {
 public:
  ServerSession(Strand* strand, auth::Access* access, auth::Caller caller)
      : Session<Up, Down>(strand), access_(access), caller_(std::move(caller)) {}

  const auth::Caller& caller() const { return caller_; }

  // For AcceptSession: the reactor keeps `self` until the call is over.
  static grpc::ServerBidiReactor<Up, Down>* MakeReactor(std::shared_ptr<ServerSession> self,
                                                        grpc::CallbackServerContext* context) {
    auto* reactor = new Reactor(self);
    absl::MutexLock lock(&self->mutex_);
    self->reactor_ = reactor;
    self->context_ = context;
    return reactor;
  }
  // For AcceptSession, of a caller who is admitted.
  static void Track(const std::shared_ptr<ServerSession>& self, Admission::Ticket ticket) {
    std::shared_ptr<void> tracked =
        auth::TrackCall(self->access_, self->caller_,
                        [weak = std::weak_ptr<ServerSession>(self)](const absl::Status& why) {
                          if (const auto session = weak.lock()) session->Revoke(why);
                        });
    absl::MutexLock lock(&self->mutex_);
    if (self->reactor_ == nullptr) return;
    self->tracked_ = std::move(tracked);
    self->ticket_ = std::move(ticket);
  }
  using Session<Up, Down>::Open;

 private:
  class Reactor final : public grpc::ServerBidiReactor<Up, Down> {
   public:
    explicit Reactor(std::shared_ptr<ServerSession> session) : session_(std::move(session)) {}
    void OnReadDone(bool ok) override { session_->OnReadDone(ok); }
    void OnWriteDone(bool ok) override { session_->OnWriteDone(ok); }
    void OnCancel() override { session_->OnBroken(absl::CancelledError("The client is gone.")); }
    void OnDone() override {
      session_->OnDone();
      delete this;
    }

   private:
    const std::shared_ptr<ServerSession> session_;
  };

  bool CanReadLocked() const override ABSL_NO_THREAD_SAFETY_ANALYSIS { return !this->ended(); }
  void StartReadLocked(Up* message) override { reactor_->StartRead(message); }
  void StartWriteLocked(const Down* message) override { reactor_->StartWrite(message); }
  void EndLocked(const absl::Status& status) override { reactor_->Finish(ToGrpcStatus(status)); }
  absl::Status Recheck() override { return access_->Recheck(caller_); }
  // The client closed its side, so the session is over for us too.
  void OnReadsEnd() override { this->Finish(absl::OkStatus()); }

  // Ends the session without sending what is queued. Again: breaks it off.
  void Revoke(const absl::Status& why) {
    {
      absl::MutexLock lock(&this->mutex_);
      // gRPC carries the cancellation out on a thread of its own, so it takes no lock of ours here.
      if (revoked_ && context_ != nullptr) context_->TryCancel();
      revoked_ = true;
      if (reactor_ == nullptr) return;
    }
    this->OnBroken(why);
  }

  void OnDone() {
    absl::Status status;
    {
      absl::MutexLock lock(&this->mutex_);
      reactor_ = nullptr;
      context_ = nullptr;
      tracked_ = nullptr;
      ticket_ = Admission::Ticket();
      status = this->end_status();
    }
    this->OnOver(status);
  }

  auth::Access* const access_;
  const auth::Caller caller_;
  // These under the mutex. The first two are null once the call is over.
  Reactor* reactor_ = nullptr;
  grpc::CallbackServerContext* context_ = nullptr;
  std::shared_ptr<void> tracked_;
  Admission::Ticket ticket_;
  bool revoked_ = false;
};

// Answers a bidirectional stream: authorises and admits the caller, then runs `open` on the strand:
//
//   SessionCallbacks<Up> open(std::shared_ptr<ServerSession<Up, Down>> session)
//
// Messages are read from then on. `open` may already Send or Finish. Keep the session as long as
// you want to send; it lives until its call is over in any case.
template <typename Up, typename Down, typename OpenFn>
grpc::ServerBidiReactor<Up, Down>* AcceptSession(grpc::CallbackServerContext* context,
                                                 auth::Access* access, absl::string_view method,
                                                 Strand* strand, OpenFn open) {
  absl::StatusOr<auth::Caller> caller = access->Authorize(PeerOf(*context), method, nullptr);
  absl::StatusOr<Admission::Ticket> ticket = Admit(caller, Admission::Kind::kStream);
  const absl::Status status = ticket.status();
  auto session = std::make_shared<ServerSession<Up, Down>>(
      strand, access, caller.ok() ? *std::move(caller) : auth::Caller());
  grpc::ServerBidiReactor<Up, Down>* reactor =
      ServerSession<Up, Down>::MakeReactor(session, context);
  if (!status.ok()) {
    session->Finish(status);
    return reactor;
  }
  ServerSession<Up, Down>::Track(session, *std::move(ticket));
  strand->Post(
      OrElse([session, open = std::move(open)]() mutable { session->Open(open(session)); },
             [session] { session->Finish(absl::UnavailableError("The server is stopping.")); }));
  return reactor;
}

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_SESSION_SERVER_H_
