#ifndef CAPSTAN_LIBS_KUBE_EXEC_CHANNEL_SESSION_H_
#define CAPSTAN_LIBS_KUBE_EXEC_CHANNEL_SESSION_H_

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/kube/exec/web_socket.h"

namespace capstan::kube {

// A WebSocket and the pure Core that says what its messages mean, for one handler of a user's.
// Shared by the WebSocket's calls and the user's handle, so that it outlives the handle while it is
// called. Thread-safe; what is protected is called from the WebSocket's handler, which this is.
//
// A Core has Opened(subprotocol), Receive(message), NextFrame() and TakeRoom().
template <typename Core>
class ChannelSession : public WebSocketHandler,
                       public std::enable_shared_from_this<ChannelSession<Core>> {
 public:
  explicit ChannelSession(Core core) : core_(std::move(core)) {}

  void Dial(WebSocketDialer* dialer, WebSocketRequest request) {
    // Held, so that who is called at once finds the WebSocket.
    absl::MutexLock lock(&mutex_);
    socket_ = dialer->Dial(std::move(request), this);
  }

  // As of WebSocket's destructor.
  void Cancel() {
    // Destroyed under no lock: that waits for calls, which take it.
    std::unique_ptr<WebSocket> socket;
    absl::MutexLock lock(&mutex_);
    over_ = true;
    socket = std::move(socket_);
  }

  void Resume() {
    absl::MutexLock lock(&mutex_);
    if (socket_ != nullptr) socket_->Resume();
  }

  // Gives what `change` gives, and sends what the core then has to send.
  template <typename Change>
  std::invoke_result_t<Change, Core&> Apply(const Change& change) {
    absl::MutexLock lock(&mutex_);
    auto result = change(core_);
    SendNext();
    return result;
  }

  // The handler was told the end, or wants to hear nothing.
  bool over() const {
    absl::MutexLock lock(&mutex_);
    return over_;
  }

 protected:
  using Received = std::invoke_result_t<decltype(&Core::Receive), Core&, absl::string_view>;
  struct Progress {
    // The user's handler is to be told that there is room.
    bool room = false;
    // Nothing is left to be sent.
    bool all = false;
  };

  // The server has accepted it, with `subprotocol`; what waits goes out, unless that is an error.
  absl::Status Open(absl::string_view subprotocol) {
    absl::MutexLock lock(&mutex_);
    absl::Status opened = core_.Opened(subprotocol);
    if (opened.ok()) SendNext();
    return opened;
  }

  // Absent: it is over.
  absl::optional<Received> Receive(absl::string_view message) {
    absl::MutexLock lock(&mutex_);
    if (over_) return absl::nullopt;
    return core_.Receive(message);
  }

  // A frame has been sent, and the next goes out.
  Progress Advance() {
    absl::MutexLock lock(&mutex_);
    sending_ = false;
    SendNext();
    return {core_.TakeRoom(), !sending_};
  }

  // Calls `tell` unless it is over, which it is from now on.
  template <typename Tell>
  void End(const Tell& tell) {
    std::unique_ptr<WebSocket> socket;
    {
      absl::MutexLock lock(&mutex_);
      if (over_) return;
      over_ = true;
    }
    tell();
    // Only now: until then who destroys the handle waits for this call.
    absl::MutexLock lock(&mutex_);
    socket = std::move(socket_);
  }

 private:
  void SendNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (sending_ || over_ || socket_ == nullptr) return;
    absl::optional<std::string> frame = core_.NextFrame();
    if (!frame.has_value()) return;
    sending_ = true;
    socket_->Send(*std::move(frame));
  }

  mutable absl::Mutex mutex_;
  Core core_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<WebSocket> socket_ ABSL_GUARDED_BY(mutex_);
  // A frame is with the WebSocket.
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EXEC_CHANNEL_SESSION_H_
