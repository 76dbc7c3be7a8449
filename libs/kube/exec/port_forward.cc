#include "libs/kube/exec/port_forward.h"

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/kube/client/request.h"
#include "libs/kube/exec/channel_frames.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/objects/resources.h"

namespace capstan::kube {
namespace {

// Outlives its ForwardedConnection while it is called.
class Session final : public WebSocketHandler, public std::enable_shared_from_this<Session> {
 public:
  Session(uint16_t port, const PortForwardOptions& options, PortForwardHandler* handler)
      : handler_(handler), core_(port, options.max_bytes) {}

  void Dial(WebSocketDialer* dialer, WebSocketRequest request) {
    // Held, so that who is called at once finds the WebSocket.
    absl::MutexLock lock(&mutex_);
    socket_ = dialer->Dial(std::move(request), this);
  }

  void Cancel() {
    std::unique_ptr<WebSocket> socket;
    {
      absl::MutexLock lock(&mutex_);
      over_ = true;
      socket = std::move(socket_);
    }
  }

  size_t Write(absl::string_view bytes) {
    absl::MutexLock lock(&mutex_);
    if (over_) return 0;
    const size_t taken = core_.Write(bytes);
    SendNext();
    return taken;
  }

  void Resume() {
    absl::MutexLock lock(&mutex_);
    if (socket_ != nullptr) socket_->Resume();
  }

  void OnOpen(absl::string_view subprotocol) override {
    const auto self = shared_from_this();
    absl::Status opened;
    {
      absl::MutexLock lock(&mutex_);
      opened = core_.Opened(subprotocol);
      if (opened.ok()) SendNext();
    }
    if (!opened.ok()) End(std::move(opened));
  }

  bool OnMessage(absl::string_view message) override {
    const auto self = shared_from_this();
    PortForwardCore::Received received;
    {
      absl::MutexLock lock(&mutex_);
      if (over_) return false;
      received = core_.Receive(message);
    }
    if (!received.error.ok()) {
      End(std::move(received.error));
      return false;
    }
    return received.bytes.empty() || handler_->OnBytes(received.bytes);
  }

  void OnSent() override {
    const auto self = shared_from_this();
    bool room = false;
    bool all = false;
    {
      absl::MutexLock lock(&mutex_);
      sending_ = false;
      SendNext();
      room = core_.TakeRoom();
      all = !sending_;
    }
    if (room) handler_->OnRoom();
    if (all && !IsOver()) handler_->OnAllSent();
  }

  void OnEnd(WebSocketEnd end) override {
    const auto self = shared_from_this();
    End(std::move(end.status));
  }

 private:
  bool IsOver() {
    absl::MutexLock lock(&mutex_);
    return over_;
  }

  void SendNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (sending_ || over_ || socket_ == nullptr) return;
    absl::optional<std::string> frame = core_.NextFrame();
    if (!frame.has_value()) return;
    sending_ = true;
    socket_->Send(*std::move(frame));
  }

  // From the WebSocket's handler, which is this.
  void End(absl::Status end) {
    std::unique_ptr<WebSocket> socket;
    {
      absl::MutexLock lock(&mutex_);
      if (over_) return;
      over_ = true;
    }
    handler_->OnEnd(std::move(end));
    // Only now: until then who destroys the connection waits for this call.
    {
      absl::MutexLock lock(&mutex_);
      socket = std::move(socket_);
    }
  }

  PortForwardHandler* const handler_;
  absl::Mutex mutex_;
  PortForwardCore core_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<WebSocket> socket_ ABSL_GUARDED_BY(mutex_);
  // A frame is with the WebSocket.
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  // The handler was told the end, or wants to hear nothing.
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

class SessionConnection final : public ForwardedConnection {
 public:
  explicit SessionConnection(std::shared_ptr<Session> session) : session_(std::move(session)) {}
  ~SessionConnection() override { session_->Cancel(); }

  size_t Write(absl::string_view bytes) override { return session_->Write(bytes); }
  void Resume() override { session_->Resume(); }

 private:
  const std::shared_ptr<Session> session_;
};

}  // namespace

std::unique_ptr<ForwardedConnection> ForwardPort(WebSocketDialer* dialer, absl::string_view ns,
                                                 absl::string_view pod, uint16_t port,
                                                 const PortForwardOptions& options,
                                                 PortForwardHandler* handler) {
  Query query;
  query.Add("ports", absl::StrCat(port));
  WebSocketRequest request;
  request.target = ObjectPath(kPods.type(), ns, pod, "portforward") + query.text();
  request.subprotocols = {kChannelsV4};
  request.open_timeout = options.start_timeout;
  request.timeout = options.timeout;
  auto session = std::make_shared<Session>(port, options, handler);
  session->Dial(dialer, std::move(request));
  return std::make_unique<SessionConnection>(std::move(session));
}

}  // namespace capstan::kube
