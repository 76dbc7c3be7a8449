#include "libs/kube/exec/remote_command_core.h"

#include "absl/strings/str_cat.h"
#include "libs/kube/client/server_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

constexpr size_t kMaxStatusBytes = size_t{64} << 10;

absl::Status CannotClose() {
  return status::Error(absl::StatusCode::kUnimplemented, kUnsupported,
                       "the server speaks v4.channel.k8s.io, in which stdin cannot be closed; it "
                       "takes Kubernetes 1.30, or a command that knows by itself where its input "
                       "ends");
}

}  // namespace

size_t RemoteCommandCore::WriteStdin(absl::string_view bytes) {
  return stdin_state_ == Stdin::kOpen ? stdin_.Push(bytes) : 0;
}

absl::Status RemoteCommandCore::CloseStdin() {
  if (protocol_ == Protocol::kV4) return CannotClose();
  if (stdin_state_ == Stdin::kOpen) stdin_state_ = Stdin::kClosing;
  return absl::OkStatus();
}

void RemoteCommandCore::Resize(TerminalSize size) { size_ = size; }

absl::Status RemoteCommandCore::Opened(absl::string_view subprotocol) {
  if (subprotocol == kChannelsV5) {
    protocol_ = Protocol::kV5;
    return absl::OkStatus();
  }
  if (subprotocol != kChannelsV4) {
    return status::Error(absl::StatusCode::kInternal, kServerFailed,
                         "the server chose a subprotocol that was not offered");
  }
  protocol_ = Protocol::kV4;
  return stdin_state_ == Stdin::kOpen ? absl::OkStatus() : CannotClose();
}

absl::optional<std::string> RemoteCommandCore::NextFrame() {
  if (protocol_ == Protocol::kNotChosen) return absl::nullopt;
  if (size_.has_value()) {
    std::string frame = ResizeFrame(*size_);
    size_.reset();
    return frame;
  }
  if (!stdin_.empty()) return stdin_.Pop();
  if (stdin_state_ != Stdin::kClosing || protocol_ != Protocol::kV5) return absl::nullopt;
  stdin_state_ = Stdin::kClosed;
  return CloseFrame(kStdinChannel);
}

RemoteCommandCore::Received RemoteCommandCore::Receive(absl::string_view message) {
  Received received;
  const absl::optional<ChannelFrame> frame = ParseChannelFrame(message);
  if (!frame.has_value()) return received;
  switch (frame->channel) {
    case kStdoutChannel:
    case kStderrChannel:
      received.stream =
          frame->channel == kStdoutChannel ? OutputStream::kStdout : OutputStream::kStderr;
      received.output = frame->bytes;
      break;
    case kErrorChannel:
      absl::StrAppend(&status_, frame->bytes);
      received.end = ReadExitStatus(status_);
      if (!received.end.has_value() && status_.size() > kMaxStatusBytes) {
        received.end =
            status::Error(absl::StatusCode::kInternal, kServerFailed,
                          "what the server says of the end is no metav1.Status of 64 KiB");
      }
      break;
    default:
      break;
  }
  return received;
}

}  // namespace capstan::kube
