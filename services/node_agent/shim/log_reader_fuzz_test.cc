// A Task's log folder as a crash or a damaged disk left it, and a cursor from a damaged record: the
// reader comes to an end, never goes back, and gives whole records only.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/fuzzing/fuzz_folder.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "services/node_agent/shim/log_frame.h"
#include "services/node_agent/shim/log_reader.h"

namespace capstan::node_agent {
namespace {

using capstan::nodeagent::v1::ShimLogRecord;
using fuzzing::FuzzInput;
using fuzzing::Require;

std::string Segment(FuzzInput* input) {
  std::string bytes;
  for (size_t frames = input->Below(5); frames > 0; --frames) {
    AppendLogFrame(fuzzing::MakeMessage<ShimLogRecord>({"line", ""}, input), &bytes);
  }
  switch (input->Below(4)) {
    case 0:
      bytes.resize(bytes.size() - input->Below(bytes.size() + 1));
      break;
    case 1:
      if (!bytes.empty()) bytes[input->Below(bytes.size())] ^= static_cast<char>(input->Byte());
      break;
    case 2:
      absl::StrAppend(&bytes, input->Bytes(input->Below(30)));
      break;
    default:
      break;
  }
  return bytes;
}

void Check(FuzzInput* input) {
  const fuzzing::FuzzFolder folder;
  for (size_t segments = input->Below(4); segments > 0; --segments) {
    folder.Write(LogSegmentName(std::max<int64_t>(0, input->Number())), Segment(input));
  }
  LogCursor cursor;
  if (input->Flag()) cursor = {input->Number(), input->Number(), input->Number()};
  for (int calls = 0;; ++calls) {
    const absl::StatusOr<LogBatch> batch = ReadLog(folder.path(), cursor, 64);
    if (!batch.ok()) return;
    Require(batch->next.segment > cursor.segment || batch->next.offset >= cursor.offset);
    if (batch->records.empty()) break;
    // At most one call a record.
    Require(calls < 100);
    cursor = batch->next;
  }
  Require(RemoveShippedSegments(folder.path(), cursor).ok());
}

}  // namespace
}  // namespace capstan::node_agent

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::fuzzing::FuzzInput input(data, size);
  capstan::node_agent::Check(&input);
  return 0;
}
