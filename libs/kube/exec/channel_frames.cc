#include "libs/kube/exec/channel_frames.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"
#include "libs/kube/client/server_error.h"
#include "libs/kube/objects/proto/meta_v1.pb.h"

namespace capstan::kube {
namespace {

using k8s::io::apimachinery::pkg::apis::meta::v1::Status;

// As large as those that API servers and kubelets send: they copy pieces of that size.
constexpr size_t kMaxFrameBytes = size_t{32} << 10;
constexpr int kInternalError = 500;
constexpr int kLowestError = 300;
constexpr int kHighestError = 599;

}  // namespace

std::string CloseFrame(uint8_t channel) {
  return {static_cast<char>(kCloseChannel), static_cast<char>(channel)};
}

std::string ResizeFrame(TerminalSize size) {
  return absl::StrCat(std::string(1, static_cast<char>(kResizeChannel)), "{\"Width\":", size.width,
                      ",\"Height\":", size.height, "}");
}

absl::optional<ChannelFrame> ParseChannelFrame(absl::string_view message) {
  if (message.empty()) return absl::nullopt;
  return ChannelFrame{static_cast<uint8_t>(message.front()), message.substr(1)};
}

absl::optional<absl::StatusOr<ExitStatus>> ReadExitStatus(absl::string_view json) {
  Status read;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  if (!google::protobuf::util::JsonStringToMessage(
           google::protobuf::StringPiece(json.data(), json.size()), &read, options)
           .ok()) {
    return absl::nullopt;
  }
  if (read.status() == "Success") return ExitStatus();
  if (read.status() != "Failure") return absl::nullopt;
  if (read.reason() == "NonZeroExitCode") {
    for (const auto& cause : read.details().causes()) {
      ExitStatus exit;
      if (cause.reason() == "ExitCode" && absl::SimpleAtoi(cause.message(), &exit.code)) {
        return exit;
      }
    }
  }
  const bool is_error = read.code() >= kLowestError && read.code() <= kHighestError;
  return ServerError(is_error ? read.code() : kInternalError, {}, json);
}

size_t FrameQueue::Push(absl::string_view bytes) {
  const size_t taken = std::min(bytes.size(), most_ - bytes_);
  if (taken < bytes.size()) short_ = true;
  absl::string_view rest = bytes.substr(0, taken);
  while (!rest.empty()) {
    if (frames_.empty() || frames_.back().size() > kMaxFrameBytes) {
      frames_.emplace_back(1, static_cast<char>(channel_));
    }
    const size_t part = std::min(rest.size(), kMaxFrameBytes + 1 - frames_.back().size());
    frames_.back().append(rest.data(), part);
    rest.remove_prefix(part);
  }
  bytes_ += taken;
  return taken;
}

std::string FrameQueue::Pop() {
  std::string frame = std::move(frames_.front());
  frames_.pop_front();
  bytes_ -= frame.size() - 1;
  return frame;
}

bool FrameQueue::TakeRoom() {
  if (!short_ || bytes_ > most_ / 2) return false;
  short_ = false;
  return true;
}

}  // namespace capstan::kube
