#include "libs/task_session/channels.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"

namespace capstan::task_session {

using telemetry::v1::TaskSessionFrame;

namespace {

absl::Status BadFrame(int32_t channel, const char* what) {
  return status::Error(absl::StatusCode::kInvalidArgument, "BAD_FRAME",
                       absl::StrCat("channel ", channel, ": ", what));
}

}  // namespace

bool Channels::Open(int32_t channel) {
  if (channel <= last_ || channels_.size() >= kMostChannels) return false;
  last_ = channel;
  channels_[channel];
  return true;
}

Channels::Channel* Channels::Find(int32_t channel) {
  const auto it = channels_.find(channel);
  return it == channels_.end() ? nullptr : &it->second;
}

size_t Channels::Room(int32_t channel) const {
  const auto it = channels_.find(channel);
  if (it == channels_.end() || it->second.ended_here) return 0;
  return it->second.credit;
}

TaskSessionFrame Channels::Send(int32_t channel, std::string data) {
  Channel* open = Find(channel);
  if (open != nullptr) open->credit -= std::min(open->credit, data.size());
  TaskSessionFrame frame;
  frame.mutable_data()->set_channel(channel);
  frame.mutable_data()->set_data(std::move(data));
  return frame;
}

absl::optional<TaskSessionFrame> Channels::End(int32_t channel) {
  Channel* open = Find(channel);
  if (open == nullptr || open->ended_here) return absl::nullopt;
  open->ended_here = true;
  DropIfOver(channel);
  TaskSessionFrame frame;
  frame.set_end(channel);
  return frame;
}

absl::optional<TaskSessionFrame> Channels::Consumed(int32_t channel, size_t bytes) {
  Channel* open = Find(channel);
  if (open == nullptr || open->ended_there) return absl::nullopt;
  open->consumed += bytes;
  // Half a window: the peer goes on sending while this is on its way.
  if (open->consumed < kWindowBytes / 2) return absl::nullopt;
  TaskSessionFrame frame;
  frame.mutable_credit()->set_channel(channel);
  frame.mutable_credit()->set_bytes(static_cast<int64_t>(open->consumed));
  open->received -= std::min(open->received, open->consumed);
  open->consumed = 0;
  return frame;
}

absl::optional<TaskSessionFrame> Channels::Fail(int32_t channel, const std::string& why) {
  if (channels_.erase(channel) == 0) return absl::nullopt;
  TaskSessionFrame frame;
  frame.mutable_failure()->set_channel(channel);
  frame.mutable_failure()->set_message(why);
  return frame;
}

absl::Status Channels::Unknown(int32_t channel, bool* late) const {
  if (channel < 0 || channel > last_) return BadFrame(channel, "was never opened");
  *late = true;
  return absl::OkStatus();
}

absl::Status Channels::ReceiveData(int32_t number, size_t bytes, bool* late) {
  Channel* channel = Find(number);
  if (channel == nullptr) return Unknown(number, late);
  if (channel->ended_there) return BadFrame(number, "data after its end");
  if (bytes > kFrameBytes) return BadFrame(number, "more than 32 KiB in a frame");
  if (channel->received + bytes > kWindowBytes) return BadFrame(number, "more than its credit");
  channel->received += bytes;
  return absl::OkStatus();
}

absl::Status Channels::Receive(const TaskSessionFrame& frame, bool* late) {
  *late = false;
  switch (frame.frame_case()) {
    case TaskSessionFrame::kOpen: {
      const int32_t number = frame.open().channel();
      if (number <= last_) return BadFrame(number, "its number was used before");
      if (!Open(number)) return BadFrame(number, "too many are open");
      return absl::OkStatus();
    }
    case TaskSessionFrame::kData:
      return ReceiveData(frame.data().channel(), frame.data().data().size(), late);
    case TaskSessionFrame::kEnd: {
      Channel* channel = Find(frame.end());
      if (channel == nullptr) return Unknown(frame.end(), late);
      if (channel->ended_there) return BadFrame(frame.end(), "ended twice");
      channel->ended_there = true;
      DropIfOver(frame.end());
      return absl::OkStatus();
    }
    case TaskSessionFrame::kCredit: {
      const int32_t number = frame.credit().channel();
      Channel* channel = Find(number);
      if (channel == nullptr) return Unknown(number, late);
      const int64_t bytes = frame.credit().bytes();
      if (bytes <= 0 || bytes > static_cast<int64_t>(kWindowBytes - channel->credit)) {
        return BadFrame(number, "credit for what was not sent");
      }
      channel->credit += static_cast<size_t>(bytes);
      return absl::OkStatus();
    }
    case TaskSessionFrame::kFailure:
      if (channels_.erase(frame.failure().channel()) == 0) {
        return Unknown(frame.failure().channel(), late);
      }
      return absl::OkStatus();
    default:
      return BadFrame(-1, "no frame of a channel");
  }
}

void Channels::DropIfOver(int32_t channel) {
  const auto it = channels_.find(channel);
  if (it != channels_.end() && it->second.ended_here && it->second.ended_there) {
    channels_.erase(it);
  }
}

}  // namespace capstan::task_session
