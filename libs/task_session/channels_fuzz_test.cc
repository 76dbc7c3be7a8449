// Two ends of a session: what one of them sends by the rules the other takes, whatever the order;
// what a hostile one sends is refused or stays within the window.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "absl/types/optional.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "libs/task_session/channels.h"
#include "proto/capstan/telemetry/v1/task_session.pb.h"

namespace capstan::task_session {
namespace {

using fuzzing::FuzzInput;
using fuzzing::Require;
using telemetry::v1::TaskSessionFrame;

constexpr int32_t kNumbers = 30;

struct End {
  Channels book;
  // On their way to the other end.
  std::deque<TaskSessionFrame> sent;
};

void CheckBounds(const Channels& book) {
  Require(book.open() <= kMostChannels);
  for (int32_t channel = 0; channel < kNumbers; ++channel) {
    Require(book.Room(channel) <= kWindowBytes);
    if (book.IsGone(channel)) Require(book.Room(channel) == 0);
  }
}

void Say(End* end, absl::optional<TaskSessionFrame> frame) {
  if (frame.has_value()) end->sent.push_back(*std::move(frame));
}

void Honest(FuzzInput* input) {
  End ends[2];
  int32_t next = 0;
  while (!input->empty()) {
    End& from = ends[input->Below(2)];
    End& to = &from == ends ? ends[1] : ends[0];
    const auto channel = static_cast<int32_t>(input->Below(kNumbers));
    switch (input->Below(8)) {
      case 0:
        // Only one end opens, as in a session.
        if (!ends[0].book.Open(next)) break;
        ends[0].sent.emplace_back().mutable_open()->set_channel(next++);
        break;
      case 1:
      case 2: {
        const size_t room = std::min(from.book.Room(channel), kFrameBytes);
        if (room == 0) break;
        const size_t size = 1 + input->Byte() * 200;
        from.sent.push_back(from.book.Send(channel, std::string(std::min(size, room), 'x')));
        break;
      }
      case 3:
        Say(&from, from.book.End(channel));
        break;
      case 4:
        if (input->Below(4) == 0) Say(&from, from.book.Fail(channel, "why"));
        break;
      default: {
        if (from.sent.empty()) break;
        const TaskSessionFrame frame = std::move(from.sent.front());
        from.sent.pop_front();
        bool late = false;
        // Too many open at once is the one thing that depends on both ends.
        if (!to.book.Receive(frame, &late).ok()) {
          Require(frame.has_open() && to.book.open() == kMostChannels);
          return;
        }
        if (frame.has_data() && !late) {
          Say(&to, to.book.Consumed(frame.data().channel(), frame.data().data().size()));
        }
      }
    }
    CheckBounds(from.book);
  }
}

void Hostile(FuzzInput* input) {
  Channels book;
  size_t held = 0;
  while (!input->empty()) {
    if (input->Flag()) book.Open(static_cast<int32_t>(input->Below(kNumbers)));
    const auto frame = fuzzing::MakeMessage<TaskSessionFrame>({"", "data"}, input);
    bool late = false;
    if (!book.Receive(frame, &late).ok()) return;
    if (frame.has_data() && !late) held += frame.data().data().size();
    Require(held <= kWindowBytes * kNumbers);
    CheckBounds(book);
  }
}

}  // namespace
}  // namespace capstan::task_session

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::fuzzing::FuzzInput input(data, size);
  if (input.Flag()) {
    capstan::task_session::Honest(&input);
  } else {
    capstan::task_session::Hostile(&input);
  }
  return 0;
}
