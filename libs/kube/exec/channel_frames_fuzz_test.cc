// Any messages and any order of calls: what is told of them lies within them, what was written is
// sent whole, in order and in frames that read back as what they were, and never more waits than
// the bound.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/kube/exec/channel_frames.h"
#include "libs/kube/exec/port_forward_core.h"
#include "libs/kube/exec/remote_command_core.h"

using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;

namespace capstan::kube {
namespace {

constexpr size_t kMost = 20;

bool IsWithin(absl::string_view part, absl::string_view whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

// A message that may be one of the protocol's.
std::string Message(FuzzInput* input) {
  if (input->Flag()) return std::string(input->Bytes(input->Below(64)));
  const uint8_t channel = input->Flag() ? kErrorChannel : static_cast<uint8_t>(input->Below(6));
  std::string message(1, static_cast<char>(channel));
  return message +
         input->Word({R"({"status":"Success"})", R"({"status":"Failure","reason":)",
                      R"("NonZeroExitCode","details":{"causes":[{"reason":"ExitCode",)",
                      R"("message":"3"}]}})", R"("InternalError","code":500,"message":"x"})",
                      std::string("\x50\0", 2), std::string("\x50", 1), "out"});
}

void TryCommand(FuzzInput* input) {
  RemoteCommandCore core(kMost);
  std::string written;
  std::string sent;
  bool closed = false;
  while (!input->empty()) {
    switch (input->Below(5)) {
      case 0: {
        const absl::string_view bytes = input->Bytes(30);
        const size_t taken = core.WriteStdin(bytes);
        Require(taken <= bytes.size() && (!closed || taken == 0));
        absl::StrAppend(&written, bytes.substr(0, taken));
        Require(written.size() - sent.size() <= kMost);
        break;
      }
      case 1:
        closed = core.CloseStdin().ok() || closed;
        break;
      case 2:
        core.Resize({static_cast<uint16_t>(input->Byte()), 1});
        break;
      case 3:
        (void)core.Opened(input->Flag() ? kChannelsV5 : kChannelsV4);
        while (const auto frame = core.NextFrame()) {
          const auto parsed = ParseChannelFrame(*frame);
          Require(parsed.has_value());
          if (parsed->channel == kStdinChannel) absl::StrAppend(&sent, parsed->bytes);
          if (parsed->channel == kCloseChannel) Require(closed && sent == written);
        }
        Require(sent == written);
        break;
      default: {
        const std::string message = Message(input);
        const RemoteCommandCore::Received received = core.Receive(message);
        Require(IsWithin(received.output, message));
      }
    }
  }
}

void TryForward(FuzzInput* input) {
  constexpr uint16_t kPort = 0x50;
  PortForwardCore core(kPort, kMost);
  while (!input->empty()) {
    const std::string message = Message(input);
    const PortForwardCore::Received received = core.Receive(message);
    Require(IsWithin(received.bytes, message));
    Require(received.bytes.empty() || received.error.ok());
    Require(received.error.message().size() < 8192);
  }
}

}  // namespace
}  // namespace capstan::kube

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  if (input.Flag()) {
    capstan::kube::TryCommand(&input);
  } else {
    capstan::kube::TryForward(&input);
  }
  return 0;
}
