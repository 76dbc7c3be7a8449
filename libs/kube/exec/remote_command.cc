#include "libs/kube/exec/remote_command.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/kube/client/request.h"
#include "libs/kube/exec/channel_session.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/objects/resources.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"
#include "libs/utf8/utf8.h"

namespace capstan::kube {
namespace {

class Session final : public ChannelSession<RemoteCommandCore> {
 public:
  Session(const RemoteCommandOptions& options, RemoteCommandHandler* handler)
      : ChannelSession(RemoteCommandCore(options.max_stdin_bytes)),
        has_stdin_(options.take_stdin),
        handler_(handler) {}

  size_t WriteStdin(absl::string_view bytes) {
    if (!has_stdin_ || over()) return 0;
    return Apply([&](RemoteCommandCore& core) { return core.WriteStdin(bytes); });
  }

  absl::Status CloseStdin() {
    if (!has_stdin_) return absl::FailedPreconditionError("the command has no stdin");
    return Apply([](RemoteCommandCore& core) { return core.CloseStdin(); });
  }

  void Resize(TerminalSize size) {
    Apply([size](RemoteCommandCore& core) {
      core.Resize(size);
      return true;
    });
  }

  void OnOpen(absl::string_view subprotocol) override {
    const auto self = shared_from_this();
    absl::Status opened = Open(subprotocol);
    if (!opened.ok()) return Finish(std::move(opened));
    handler_->OnStarted();
  }

  bool OnMessage(absl::string_view message) override {
    const auto self = shared_from_this();
    auto received = Receive(message);
    if (!received.has_value()) return false;
    if (received->end.has_value()) {
      Finish(*std::move(received->end));
      return false;
    }
    return received->output.empty() || handler_->OnOutput(received->stream, received->output);
  }

  void OnSent() override {
    const auto self = shared_from_this();
    if (Advance().room) handler_->OnStdinRoom();
  }

  void OnEnd(WebSocketEnd end) override {
    const auto self = shared_from_this();
    if (!end.status.ok()) return Finish(std::move(end.status));
    Finish(status::Error(
        absl::StatusCode::kUnavailable, kBroken,
        absl::StrCat("the server ended the stream without saying how the command did (", end.code,
                     end.reason.empty() ? "" : " ", ToUtf8(end.reason), ")"),
        {{"close_code", absl::StrCat(end.code)}}));
  }

 private:
  void Finish(absl::StatusOr<ExitStatus> end) {
    End([&] { handler_->OnEnd(std::move(end)); });
  }

  const bool has_stdin_;
  RemoteCommandHandler* const handler_;
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
