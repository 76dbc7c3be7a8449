// A log's folder as a crash, a full disk or somebody else left it: opening it never crashes, keeps
// what is whole, and the log goes on from there.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_folder.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/segment_log/frame.h"
#include "libs/segment_log/segment_log.h"

namespace {

using capstan::fuzzing::FuzzFolder;
using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::Require;
using capstan::segment_log::AppendFrame;
using capstan::segment_log::FrameKind;
using capstan::segment_log::SegmentLog;

// Whole frames, some of them torn or altered, and bytes that are none.
std::string Segment(FuzzInput* input) {
  std::string bytes;
  for (size_t frames = input->Below(5); frames > 0; --frames) {
    const FrameKind kind = input->Below(4) == 0 ? FrameKind::kHeader : FrameKind::kRecord;
    AppendFrame(kind, input->Bytes(input->Below(20)), &bytes);
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

void WriteFolder(FuzzInput* input, const FuzzFolder& folder) {
  for (size_t segments = input->Below(4); segments > 0; --segments) {
    const int64_t first = input->Number();
    folder.Write(absl::StrCat(first, ".seg"), Segment(input));
  }
  switch (input->Below(8)) {
    case 0:
      folder.Write("dropped", absl::StrCat(input->Number(), " ", input->Number(), "\n"));
      break;
    case 1:
      folder.Write("dropped", input->Bytes(20));
      break;
    default:
      break;
  }
}

absl::StatusOr<std::unique_ptr<SegmentLog>> Open(const FuzzFolder& folder) {
  SegmentLog::Repair repair;
  int64_t last = 0;
  auto log = SegmentLog::Open(
      folder.path(), {.segment_bytes = 64}, [](absl::string_view) {},
      [&last](int64_t offset, absl::string_view) {
        Require(offset > last);
        last = offset;
      },
      &repair);
  if (log.ok()) Require(repair.torn_bytes >= 0 && (*log)->next_offset() > last);
  return log;
}

void Check(FuzzInput* input) {
  const FuzzFolder folder;
  WriteFolder(input, folder);
  int64_t next = 0;
  {
    const auto log = Open(folder);
    if (!log.ok()) return;
    Require((*log)->first_offset() >= 1 && (*log)->first_offset() <= (*log)->next_offset());
    // What is said to be kept is read or said to be damaged.
    for (int64_t at = (*log)->first_offset(); at < (*log)->next_offset();) {
      const auto entries = (*log)->Read(at, 100);
      if (!entries.ok() || entries->empty()) break;
      Require(entries->front().offset == at);
      at = entries->back().offset + 1;
    }
    const bool is_full = (*log)->next_offset() > SegmentLog::kMaxOffset - 1;
    const auto offset = (*log)->Append({"first", "second"}, [] { return std::string("header"); });
    Require(offset.ok() != is_full);
    if (is_full) return;
    Require(offset.ok() && (*log)->Sync().ok());
    const auto entries = (*log)->Read(*offset, 1000);
    Require(entries.ok() && entries->size() == 2 && entries->front().payload == "first");
    next = (*log)->next_offset();
    Require(next == *offset + 2);
  }
  const auto again = Open(folder);
  Require(again.ok() && (*again)->next_offset() == next);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  Check(&input);
  return 0;
}
