#include "libs/kube/exec/port_forward_core.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/kube/client/server_error.h"
#include "libs/status/error.h"
#include "libs/utf8/utf8.h"

namespace capstan::kube {
namespace {

constexpr size_t kPortBytes = 2;
constexpr size_t kMaxReason = 1024;

absl::Status Failed(absl::string_view what) {
  return status::Error(absl::StatusCode::kInternal, kServerFailed, what);
}

}  // namespace

absl::Status PortForwardCore::Opened(absl::string_view subprotocol) {
  if (subprotocol != kChannelsV4) {
    return Failed("the server chose a subprotocol that was not offered");
  }
  opened_ = true;
  return absl::OkStatus();
}

absl::optional<std::string> PortForwardCore::NextFrame() {
  if (!opened_ || bytes_.empty()) return absl::nullopt;
  return bytes_.Pop();
}

PortForwardCore::Received PortForwardCore::Receive(absl::string_view message) {
  Received received;
  const absl::optional<ChannelFrame> frame = ParseChannelFrame(message);
  if (!frame.has_value() || frame->channel >= kChannels) return received;
  std::string& begin = begin_[frame->channel];
  absl::string_view bytes = frame->bytes;
  if (begin.size() < kPortBytes) {
    const size_t part = std::min(bytes.size(), kPortBytes - begin.size());
    absl::StrAppend(&begin, bytes.substr(0, part));
    bytes.remove_prefix(part);
    if (begin.size() < kPortBytes) return received;
    const auto byte = [&](size_t at) { return static_cast<uint8_t>(begin[at]); };
    if ((byte(0) | byte(1) << 8) != port_) {
      received.error = Failed("the kubelet forwards another port than was asked for");
      return received;
    }
  }
  if (bytes.empty()) return received;
  if (frame->channel == 0) {
    received.bytes = bytes;
  } else {
    received.error = status::Error(absl::StatusCode::kUnavailable, kForwardFailed,
                                   absl::StrCat("the kubelet cannot forward port ", port_, ": ",
                                                ToUtf8(bytes.substr(0, kMaxReason))),
                                   {{"port", absl::StrCat(port_)}});
  }
  return received;
}

}  // namespace capstan::kube
