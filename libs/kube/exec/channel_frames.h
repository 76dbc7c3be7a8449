// The messages of `channel.k8s.io` over WebSockets: a byte that names a channel, then its bytes.
// Pure.
#ifndef CAPSTAN_LIBS_KUBE_EXEC_CHANNEL_FRAMES_H_
#define CAPSTAN_LIBS_KUBE_EXEC_CHANNEL_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace capstan::kube {

// Subprotocols. v5 adds that a channel can be closed while the others go on; of Kubernetes 1.30.
inline constexpr char kChannelsV4[] = "v4.channel.k8s.io";
inline constexpr char kChannelsV5[] = "v5.channel.k8s.io";

// Of exec and attach.
inline constexpr uint8_t kStdinChannel = 0;
inline constexpr uint8_t kStdoutChannel = 1;
inline constexpr uint8_t kStderrChannel = 2;
// A metav1.Status, JSON: how it ended.
inline constexpr uint8_t kErrorChannel = 3;
inline constexpr uint8_t kResizeChannel = 4;
// Of v5: the byte after it names the channel that is closed.
inline constexpr uint8_t kCloseChannel = 255;

// Of a terminal, in characters.
struct TerminalSize {
  uint16_t width = 0;
  uint16_t height = 0;

  friend bool operator==(const TerminalSize&, const TerminalSize&) = default;
};

std::string CloseFrame(uint8_t channel);
std::string ResizeFrame(TerminalSize size);

struct ChannelFrame {
  uint8_t channel = 0;
  // Of the message that was parsed; may be empty.
  absl::string_view bytes;
};
// Absent: the message is empty.
absl::optional<ChannelFrame> ParseChannelFrame(absl::string_view message);

// How a command ended by itself.
struct ExitStatus {
  // 128 and its number if a signal ended it, as container runtimes say it.
  int code = 0;

  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

// What the error channel says. Absent: it is no whole metav1.Status yet. An error is as of
// ServerError (server_error.h), of a Status that has no exit code.
absl::optional<absl::StatusOr<ExitStatus>> ReadExitStatus(absl::string_view json);

// Bytes of one channel that wait to be sent, as frames.
class FrameQueue {
 public:
  // At most `most` bytes wait.
  FrameQueue(uint8_t channel, size_t most) : channel_(channel), most_(most) {}

  // Takes as many as there is room for, from the front.
  size_t Push(absl::string_view bytes);
  bool empty() const { return bytes_ == 0; }
  // The next frame, of at most 32 KiB; not if it is empty.
  std::string Pop();
  // Whether a Push has been cut short and half of the room is there again; said once.
  bool TakeRoom();

 private:
  const uint8_t channel_;
  const size_t most_;
  std::deque<std::string> frames_;
  // Without the channels' bytes.
  size_t bytes_ = 0;
  bool short_ = false;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EXEC_CHANNEL_FRAMES_H_
