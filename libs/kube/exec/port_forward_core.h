// One TCP connection to a Pod's port as its messages show it: channel 0 carries the bytes, channel
// 1 what went wrong, and each begins with the port's number. Pure.
#ifndef CAPSTAN_LIBS_KUBE_EXEC_PORT_FORWARD_CORE_H_
#define CAPSTAN_LIBS_KUBE_EXEC_PORT_FORWARD_CORE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/kube/exec/channel_frames.h"

namespace capstan::kube {

// UNAVAILABLE: nothing took the connection in the Pod, or it broke there.
inline constexpr char kForwardFailed[] = "KUBE_FORWARD_FAILED";

class PortForwardCore {
 public:
  // At most `max_bytes` wait to be sent.
  PortForwardCore(uint16_t port, size_t max_bytes) : port_(port), bytes_(0, max_bytes) {}

  // Takes as many as there is room for, from the front.
  size_t Write(absl::string_view bytes) { return bytes_.Push(bytes); }
  // INTERNAL (kServerFailed) if the subprotocol is not v4.
  absl::Status Opened(absl::string_view subprotocol);
  absl::optional<std::string> NextFrame();
  bool TakeRoom() { return bytes_.TakeRoom(); }

  struct Received {
    // Of the message.
    absl::string_view bytes;
    // kForwardFailed, with what the kubelet says; kServerFailed if the port is another.
    absl::Status error;
  };
  Received Receive(absl::string_view message);

 private:
  static constexpr size_t kChannels = 2;

  const uint16_t port_;
  FrameQueue bytes_;
  bool opened_ = false;
  // Of each channel: what there is of its port's number, at most two bytes.
  std::string begin_[kChannels];
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_EXEC_PORT_FORWARD_CORE_H_
