// The channels of a task session as one of its ends keeps them. Pure.
#ifndef CAPSTAN_LIBS_TASK_SESSION_CHANNELS_H_
#define CAPSTAN_LIBS_TASK_SESSION_CHANNELS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "proto/capstan/telemetry/v1/task_session.pb.h"

namespace capstan::task_session {

// What may be under way in one direction of a channel, and in one frame.
inline constexpr size_t kWindowBytes = 128 << 10;
inline constexpr size_t kFrameBytes = 32 << 10;
// Open at a time: together they stay below what a stream holds for a slow peer.
inline constexpr size_t kMostChannels = 24;

// Counts credit and ends for every channel. A frame that breaks the rules is the peer's fault and
// ends the session.
class Channels {
 public:
  // Opens a channel at this end. False if there are too many; the number was never used before.
  bool Open(int32_t channel);

  // Bytes that may be sent now; 0 for a channel that is not open to be written.
  size_t Room(int32_t channel) const;
  // What to send for `data`, which is no more than Room and kFrameBytes.
  telemetry::v1::TaskSessionFrame Send(int32_t channel, std::string data);
  // This end sends no more. Absent if that was said before, or the channel is gone.
  absl::optional<telemetry::v1::TaskSessionFrame> End(int32_t channel);
  // What came was passed on. Absent until enough was for a frame to be worth it.
  absl::optional<telemetry::v1::TaskSessionFrame> Consumed(int32_t channel, size_t bytes);
  // Gives the channel up. Absent if it is gone.
  absl::optional<telemetry::v1::TaskSessionFrame> Fail(int32_t channel, const std::string& why);

  // Takes a frame of the peer: `open`, `data`, `end`, `credit` or `failure`. Errors, all
  // INVALID_ARGUMENT with reason BAD_FRAME: more than the credit, after the end, a number that was
  // used, a channel never opened. Frames of a channel that was given up here come late, and are
  // nobody's fault: `*late` is true then.
  absl::Status Receive(const telemetry::v1::TaskSessionFrame& frame, bool* late);

  // Both directions have ended, or it failed, or was never opened.
  bool IsGone(int32_t channel) const { return channels_.count(channel) == 0; }
  size_t open() const { return channels_.size(); }

 private:
  struct Channel {
    size_t credit = kWindowBytes;
    // Sent by the peer and not yet credited again, of that what was passed on.
    size_t received = 0;
    size_t consumed = 0;
    bool ended_here = false;
    bool ended_there = false;
  };

  absl::Status ReceiveData(int32_t number, size_t bytes, bool* late);
  Channel* Find(int32_t channel);
  // Of a channel that is not open: nothing wrong if it once was.
  absl::Status Unknown(int32_t channel, bool* late) const;
  void DropIfOver(int32_t channel);

  std::map<int32_t, Channel> channels_;
  int32_t last_ = -1;
};

}  // namespace capstan::task_session

#endif  // CAPSTAN_LIBS_TASK_SESSION_CHANNELS_H_
