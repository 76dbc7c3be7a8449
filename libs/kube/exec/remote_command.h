// Commands in containers: `kubectl exec` and `kubectl attach`.
#ifndef CAPSTAN_LIBS_KUBE_EXEC_REMOTE_COMMAND_H_
#define CAPSTAN_LIBS_KUBE_EXEC_REMOTE_COMMAND_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/kube/exec/channel_frames.h"
#include "libs/kube/exec/remote_command_core.h"
#include "libs/kube/exec/web_socket.h"

namespace capstan::kube {

struct RemoteCommandOptions {
  // Empty: the only one.
  std::string container;
  // Of exec: the program and its arguments, which no shell sees. Of attach: empty.
  std::vector<std::string> command;
  // What is connected; at least one of the three.
  bool take_stdin = false;
  bool take_stdout = true;
  // With a terminal there is none: it comes by stdout.
  bool take_stderr = true;
  // The command gets a terminal of its own; of attach: the container has one.
  bool tty = false;

  // Until the server has accepted it; a kubelet may not have begun by then.
  absl::Duration start_timeout = absl::Seconds(30);
  // Of the whole.
  absl::Duration timeout = absl::InfiniteDuration();
  // Of stdin, that wait to be sent.
  size_t max_stdin_bytes = size_t{256} << 10;
};

// Called from the dialer's thread, never two methods of one handler at once; must not block. Any
// method may destroy its own RemoteCommand, after which no other is called.
class RemoteCommandHandler {
 public:
  virtual ~RemoteCommandHandler() = default;

  // The server has accepted it. At most once, first.
  virtual void OnStarted() {}
  // Next bytes, never none. False: no more are wanted until Resume. Until then nothing is read from
  // the connection, and the command is held up once what lies between is full.
  virtual bool OnOutput(OutputStream stream, absl::string_view bytes) = 0;
  // WriteStdin has taken less than it was given, and there is room again.
  virtual void OnStdinRoom() {}
  // Exactly once, last, after all output. The exit status is the command's, 0 of an attach that
  // came to its end. Else an error of a refused upgrade or a Status, as of ServerError
  // (server_error.h): NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT (no such container), INTERNAL
  // (the kubelet or the container's runtime failed); or of the transport (transport_error.h,
  // web_socket.h). UNAVAILABLE (kBroken): it ended and nobody said how, and the command may go on.
  virtual void OnEnd(absl::StatusOr<ExitStatus> end) = 0;
};

// A command under way, or over. Thread-safe. It holds at most `max_stdin_bytes` and what its
// WebSocket does.
class RemoteCommand {
 public:
  // Hangs up, which is not to say that the command ends: it sees its stdin end, and what it does
  // then, or when it writes, is its own business and its runtime's. No method of the handler runs
  // once it has returned; it waits for one that does, unless it is that one who destroys it.
  virtual ~RemoteCommand() = default;

  // Takes bytes from the front, as many as there is room for; if not all, OnStdinRoom follows. May
  // be called before OnStarted. None after CloseStdin.
  virtual size_t WriteStdin(absl::string_view bytes) = 0;
  // After all that was written. UNIMPLEMENTED (kUnsupported) if the server is older than Kubernetes
  // 1.30, also as the command's end, if it is called before OnStarted; FAILED_PRECONDITION if there
  // is no stdin.
  virtual absl::Status CloseStdin() = 0;
  // Of the terminal.
  virtual void Resize(TerminalSize size) = 0;
  // The handler, which has returned false from OnOutput, wants output again. Also from the handler;
  // without effect if it had not. In OnOutput it cancels out with the false that is then returned.
  virtual void Resume() = 0;
};

// Runs a command in a running container. Never blocks, and calls no method of the handler inline.
// The handler must live until OnEnd has returned or the command is destroyed; the dialer is
// destroyed last, or ends the command.
[[nodiscard]] std::unique_ptr<RemoteCommand> ExecInPod(WebSocketDialer* dialer,
                                                       absl::string_view ns, absl::string_view pod,
                                                       const RemoteCommandOptions& options,
                                                       RemoteCommandHandler* handler);
// Connects to the process that a container runs, from now on: earlier output is its log.
[[nodiscard]] std::unique_ptr<RemoteCommand> AttachToPod(WebSocketDialer* dialer,
                                                         absl::string_view ns,
                                                         absl::string_view pod,
                                                         const RemoteCommandOptions& options,
                                                         RemoteCommandHandler* handler);

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EXEC_REMOTE_COMMAND_H_
