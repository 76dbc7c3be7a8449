#include "libs/kube/exec/remote_command.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "libs/kube/client/request.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/objects/resources.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"
#include "libs/utf8/utf8.h"

namespace capstan::kube {
namespace {

// Outlives its RemoteCommand while it is called.
class Session final : public WebSocketHandler, public std::enable_shared_from_this<Session> {
 public:
  Session(const RemoteCommandOptions& options, RemoteCommandHandler* handler)
      : has_stdin_(options.take_stdin), handler_(handler), core_(options.max_stdin_bytes) {}

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

  size_t WriteStdin(absl::string_view bytes) {
    absl::MutexLock lock(&mutex_);
    if (!has_stdin_ || over_) return 0;
    const size_t taken = core_.WriteStdin(bytes);
    SendNext();
    return taken;
  }

  absl::Status CloseStdin() {
    if (!has_stdin_) return absl::FailedPreconditionError("the command has no stdin");
    absl::MutexLock lock(&mutex_);
    absl::Status closed = core_.CloseStdin();
    SendNext();
    return closed;
  }

  void Resize(TerminalSize size) {
    absl::MutexLock lock(&mutex_);
    core_.Resize(size);
    SendNext();
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
    }
    if (!opened.ok()) return End(std::move(opened));
    handler_->OnStarted();
    absl::MutexLock lock(&mutex_);
    SendNext();
  }

  bool OnMessage(absl::string_view message) override {
    const auto self = shared_from_this();
    RemoteCommandCore::Received received;
    {
      absl::MutexLock lock(&mutex_);
      if (over_) return false;
      received = core_.Receive(message);
    }
    if (received.end.has_value()) {
      End(*std::move(received.end));
      return false;
    }
    return received.output.empty() || handler_->OnOutput(received.stream, received.output);
  }

  void OnSent() override {
    const auto self = shared_from_this();
    bool room = false;
    {
      absl::MutexLock lock(&mutex_);
      sending_ = false;
      SendNext();
      room = core_.TakeRoom();
    }
    if (room) handler_->OnStdinRoom();
  }

  void OnEnd(WebSocketEnd end) override {
    const auto self = shared_from_this();
    if (!end.status.ok()) return End(std::move(end.status));
    End(status::Error(
        absl::StatusCode::kUnavailable, kBroken,
        absl::StrCat("the server ended the stream without saying how the command did (", end.code,
                     end.reason.empty() ? "" : " ", ToUtf8(end.reason), ")"),
        {{"close_code", absl::StrCat(end.code)}}));
  }

 private:
  void SendNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (sending_ || over_ || socket_ == nullptr) return;
    absl::optional<std::string> frame = core_.NextFrame();
    if (!frame.has_value()) return;
    sending_ = true;
    socket_->Send(*std::move(frame));
  }

  // From the WebSocket's handler, which is this.
  void End(absl::StatusOr<ExitStatus> end) {
    std::unique_ptr<WebSocket> socket;
    {
      absl::MutexLock lock(&mutex_);
      if (over_) return;
      over_ = true;
    }
    handler_->OnEnd(std::move(end));
    // Only now: until then who destroys the command waits for this call.
    {
      absl::MutexLock lock(&mutex_);
      socket = std::move(socket_);
    }
  }

  const bool has_stdin_;
  RemoteCommandHandler* const handler_;
  absl::Mutex mutex_;
  RemoteCommandCore core_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<WebSocket> socket_ ABSL_GUARDED_BY(mutex_);
  // A frame is with the WebSocket.
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  // The handler was told the end, or wants to hear nothing.
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

class SessionCommand final : public RemoteCommand {
 public:
  explicit SessionCommand(std::shared_ptr<Session> session) : session_(std::move(session)) {}
  ~SessionCommand() override { session_->Cancel(); }

  size_t WriteStdin(absl::string_view bytes) override { return session_->WriteStdin(bytes); }
  absl::Status CloseStdin() override { return session_->CloseStdin(); }
  void Resize(TerminalSize size) override { session_->Resize(size); }
  void Resume() override { session_->Resume(); }

 private:
  const std::shared_ptr<Session> session_;
};

std::unique_ptr<RemoteCommand> Start(WebSocketDialer* dialer, absl::string_view ns,
                                     absl::string_view pod, absl::string_view subresource,
                                     const RemoteCommandOptions& options,
                                     RemoteCommandHandler* handler) {
  Query query;
  query.Add("container", options.container);
  for (const std::string& word : options.command) query.AddAny("command", word);
  // The server's defaults differ between exec and attach.
  const auto add = [&](const char* name, bool value) { query.Add(name, value ? "true" : "false"); };
  add("stdin", options.take_stdin);
  add("stdout", options.take_stdout);
  add("stderr", options.take_stderr && !options.tty);
  add("tty", options.tty);
  WebSocketRequest request;
  request.target = ObjectPath(kPods.type(), ns, pod, subresource) + query.text();
  request.subprotocols = {kChannelsV5, kChannelsV4};
  request.open_timeout = options.start_timeout;
  request.timeout = options.timeout;
  auto session = std::make_shared<Session>(options, handler);
  session->Dial(dialer, std::move(request));
  return std::make_unique<SessionCommand>(std::move(session));
}

}  // namespace

std::unique_ptr<RemoteCommand> ExecInPod(WebSocketDialer* dialer, absl::string_view ns,
                                         absl::string_view pod, const RemoteCommandOptions& options,
                                         RemoteCommandHandler* handler) {
  return Start(dialer, ns, pod, "exec", options, handler);
}

std::unique_ptr<RemoteCommand> AttachToPod(WebSocketDialer* dialer, absl::string_view ns,
                                           absl::string_view pod,
                                           const RemoteCommandOptions& options,
                                           RemoteCommandHandler* handler) {
  return Start(dialer, ns, pod, "attach", options, handler);
}

}  // namespace capstan::kube
