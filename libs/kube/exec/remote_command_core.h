// One exec or attach as its messages show it. Pure: bytes in, bytes and decisions out.
#ifndef CAPSTAN_LIBS_KUBE_EXEC_REMOTE_COMMAND_CORE_H_
#define CAPSTAN_LIBS_KUBE_EXEC_REMOTE_COMMAND_CORE_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/kube/exec/channel_frames.h"

namespace capstan::kube {

enum class OutputStream { kStdout, kStderr };

class RemoteCommandCore {
 public:
  // At most `max_stdin_bytes` wait to be sent.
  explicit RemoteCommandCore(size_t max_stdin_bytes) : stdin_(kStdinChannel, max_stdin_bytes) {}

  // Takes as many as there is room for, from the front; none once stdin was closed.
  size_t WriteStdin(absl::string_view bytes);
  // After what waits. UNIMPLEMENTED (kUnsupported) if the server speaks v4.
  absl::Status CloseStdin();
  // The newest counts.
  void Resize(TerminalSize size);

  // The server has chosen a subprotocol. INTERNAL (kServerFailed) if it is none of ours;
  // UNIMPLEMENTED (kUnsupported) if it is v4 and stdin was closed meanwhile.
  absl::Status Opened(absl::string_view subprotocol);
  // What is to be sent next, once whatever came before has been sent.
  absl::optional<std::string> NextFrame();
  // There is room for stdin again, which WriteStdin had not; said once.
  bool TakeRoom() { return stdin_.TakeRoom(); }

  // What one message meant: output, which is not empty, or the end; mostly one of them.
  struct Received {
    OutputStream stream = OutputStream::kStdout;
    // Of the message.
    absl::string_view output;
    absl::optional<absl::StatusOr<ExitStatus>> end;
  };
  // Messages of channels that are not known are passed over, as clients of Kubernetes do.
  Received Receive(absl::string_view message);

 private:
  enum class Protocol { kNotChosen, kV4, kV5 };
  enum class Stdin { kOpen, kClosing, kClosed };

  Protocol protocol_ = Protocol::kNotChosen;
  Stdin stdin_state_ = Stdin::kOpen;
  FrameQueue stdin_;
  absl::optional<TerminalSize> size_;
  // Of the error channel so far.
  std::string status_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EXEC_REMOTE_COMMAND_CORE_H_
