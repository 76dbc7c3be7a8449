// Records of a backup, whoever wrote it: of the outbox each gets a key of its own, below all that
// are to come and in the same order; all others stay as they are.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/event_shipper/restored_event.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using capstan::fuzzing::Require;
  using capstan::telemetry::v1::AppendRecordsRequest;
  constexpr char kOutbox[] = "/capstan/scheduler/v1/outbox/";
  capstan::fuzzing::FuzzInput input(data, size);
  capstan::RestoredEvents events("scheduler", input.Number());
  std::string last;
  for (int i = 0; i < 20 && !input.empty(); ++i) {
    std::string key = input.Below(4) == 0 ? input.Word({"/capstan/scheduler/v1/leader", ""})
                                          : absl::StrCat(kOutbox, input.Bytes(16));
    std::string value = input.Flag()
                            ? capstan::fuzzing::MakeMessage<AppendRecordsRequest>({"p", ""}, &input)
                                  .SerializeAsString()
                            : std::string(input.Bytes(20));
    const std::string key_before = key;
    const std::string value_before = value;
    events.Prepare(&key, &value);
    if (!absl::StartsWith(key_before, kOutbox)) {
      Require(key == key_before && value == value_before);
      continue;
    }
    Require(absl::StartsWith(key, kOutbox) && key > last);
    last = key;
    AppendRecordsRequest before;
    AppendRecordsRequest after;
    if (before.ParseFromString(value_before)) Require(after.ParseFromString(value));
  }
  return 0;
}
