#ifndef CAPSTAN_LIBS_RPC_SESSION_H_
#define CAPSTAN_LIBS_RPC_SESSION_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "libs/rpc/limits.h"
#include "libs/rpc/or_else.h"
#include "libs/status/error.h"
#include "libs/strand/strand.h"

namespace capstan::rpc {

// What the owner of a session is told, on its strand. After on_closed nothing is called any more.
template <typename In>
struct SessionCallbacks {
  // One message at a time: the next is read from the network only after this returned, so a slow
  // strand slows the sender down.
  absl::AnyInvocable<void(In)> on_message;
  // If set, called after each message with what has the next one read, to be called once on the
  // strand: for who has more to do with a message than on_message does. Until then a server is told
  // of a client that went away, but not of one that closed its side, and a client of no end.
  absl::AnyInvocable<void(absl::AnyInvocable<void()> read_on)> pace = nullptr;
  // Once. On a client: the server's status, OK included. On a server: the status it finished with,
  // or CANCELLED if the client went away, or OK if the client closed its side.
  absl::AnyInvocable<void(const absl::Status&)> on_closed;
};

// One end of a bidirectional stream: In is what comes, Out what goes. Made by AcceptSession
// (session_server.h) and OpenSession (session_client.h). Thread-safe.
template <typename In, typename Out>
class Session : public std::enable_shared_from_this<Session<In, Out>> {
 public:
  virtual ~Session() = default;

  // Queues a message. RESOURCE_EXHAUSTED if the queue is over its bound (the message is not queued;
  // an empty queue takes any), CANCELLED if the session is over.
  absl::Status Send(Out message);
  // Ends the session after what is queued was sent: a server with `status`; a client closes its
  // side (if `status` is OK) or cancels. on_closed comes when it is over.
  void Finish(const absl::Status& status);

  size_t queued_bytes() const {
    absl::MutexLock lock(&mutex_);
    return queued_bytes_;
  }

 protected:
  explicit Session(Strand* strand) : strand_(strand->remote()) {}

  // The transport's operations. Called under the mutex; complete through the On… below. `EndLocked`
  // is called once, with nothing being sent.
  virtual void StartReadLocked(In* message) = 0;
  virtual void StartWriteLocked(const Out* message) = 0;
  virtual void EndLocked(const absl::Status& status) = 0;
  // Whether a read may be started. Under the mutex.
  virtual bool CanReadLocked() const = 0;
  // May go on? Called without the mutex, for each message in either direction.
  virtual absl::Status Recheck() { return absl::OkStatus(); }

  // Gives the session its callbacks and starts to read. On the strand; once.
  void Open(SessionCallbacks<In> callbacks);

  void OnReadDone(bool ok);
  void OnWriteDone(bool ok);
  // The transport is gone: ends without sending what is queued.
  void OnBroken(const absl::Status& status);
  // Nothing of the transport is under way any more; `status` is what on_closed gets.
  void OnOver(const absl::Status& status);
  // A read failed or none will be started, so no more messages will come.
  virtual void OnReadsEnd() = 0;
  // Takes what is queued back and starts no operation any more: the transport ends by itself.
  void AbandonLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    TrimQueue();
    if (!finishing_) end_status_ = absl::CancelledError("The peer is gone.");
    finishing_ = true;
    ended_ = true;
  }

  bool ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_; }
  const absl::Status& end_status() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return end_status_;
  }

  mutable absl::Mutex mutex_;

 private:
  void Deliver();
  void ReadOn();
  // All but the message being sent.
  void TrimQueue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (queue_.size() > (sending_ ? 1 : 0)) {
      queued_bytes_ -= queue_.back().ByteSizeLong();
      queue_.pop_back();
    }
  }
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finishing_ || over_) return;
    finishing_ = true;
    end_status_ = status;
    Advance();
  }

  const Strand::Remote strand_;
  // Touched on the strand only.
  SessionCallbacks<In> callbacks_;
  // Written by the transport while a read is under way, else read on the strand.
  In incoming_;
  // The front is being sent while `sending_`.
  std::deque<Out> queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  // Finish was called; EndLocked was; OnOver was.
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_status_ ABSL_GUARDED_BY(mutex_);
};

// The two ends of a stream of `Up` from client to server and `Down` back.
template <typename Up, typename Down>
using BidiServerSession = Session<Up, Down>;
template <typename Up, typename Down>
using BidiClientSession = Session<Down, Up>;

template <typename In, typename Out>
absl::Status Session<In, Out>::Send(Out message) {
  const absl::Status allowed = Recheck();
  const size_t size = message.ByteSizeLong();
  absl::MutexLock lock(&mutex_);
  if (finishing_ || over_) return absl::CancelledError("The session is over.");
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
  Advance();
  return absl::OkStatus();
}

template <typename In, typename Out>
void Session<In, Out>::Finish(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  FinishLocked(status);
}

template <typename In, typename Out>
void Session<In, Out>::Open(SessionCallbacks<In> callbacks) {
  callbacks_ = std::move(callbacks);
  absl::MutexLock lock(&mutex_);
  if (CanReadLocked()) StartReadLocked(&incoming_);
}

template <typename In, typename Out>
void Session<In, Out>::OnReadDone(bool ok) {
  if (!ok) {
    OnReadsEnd();
    return;
  }
  const absl::Status allowed = Recheck();
  if (!allowed.ok()) {
    Finish(allowed);
    OnReadsEnd();
    return;
  }
  auto self = this->shared_from_this();
  strand_.Post(OrElse([self] { self->Deliver(); },
                      [self] {
                        self->OnBroken(absl::UnavailableError("The process is stopping."));
                        self->OnReadsEnd();
                      }));
}

template <typename In, typename Out>
void Session<In, Out>::Deliver() {
  In message = std::move(incoming_);
  incoming_.Clear();
  if (callbacks_.on_message) callbacks_.on_message(std::move(message));
  if (!callbacks_.pace) return ReadOn();
  callbacks_.pace([self = this->shared_from_this()] { self->ReadOn(); });
}

template <typename In, typename Out>
void Session<In, Out>::ReadOn() {
  absl::MutexLock lock(&mutex_);
  if (CanReadLocked()) StartReadLocked(&incoming_);
}

template <typename In, typename Out>
void Session<In, Out>::Advance() {
  if (sending_ || ended_ || over_) return;
  if (!queue_.empty()) {
    sending_ = true;
    StartWriteLocked(&queue_.front());
    return;
  }
  if (finishing_) {
    ended_ = true;
    EndLocked(end_status_);
  }
}

template <typename In, typename Out>
void Session<In, Out>::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  sending_ = false;
  if (ok) {
    queued_bytes_ -= queue_.front().ByteSizeLong();
    queue_.pop_front();
  } else {
    queue_.clear();
    queued_bytes_ = 0;
    FinishLocked(absl::CancelledError("The peer is gone."));
  }
  Advance();
}

template <typename In, typename Out>
void Session<In, Out>::OnBroken(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  TrimQueue();
  FinishLocked(status);
}

template <typename In, typename Out>
void Session<In, Out>::OnOver(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    over_ = true;
    queue_.clear();
    queued_bytes_ = 0;
  }
  // Behind the messages that were posted before. The callbacks go with it: they may hold us.
  auto self = this->shared_from_this();
  strand_.Post(OrElse(
      [self, status] {
        SessionCallbacks<In> callbacks = std::exchange(self->callbacks_, SessionCallbacks<In>());
        if (callbacks.on_closed) callbacks.on_closed(status);
      },
      [self] { self->callbacks_ = SessionCallbacks<In>(); }));
}

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_SESSION_H_
