// Any bytes as a recording: the reader neither crashes nor loops, what it gives is bounded, and
// what can be put into words is. The first byte chooses: a file, or a Block of one.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/fuzzing/fuzz_input.h"
#include "services/scheduler/recorder/decision_record.h"
#include "services/scheduler/recorder/difference.h"
#include "services/scheduler/recorder/event_record.h"
#include "services/scheduler/recorder/recording_file.h"

namespace capstan::scheduler {
namespace {

using fuzzing::Require;

void Look(const recording::Block& block) {
  for (const recording::RecordRecord& record : block.records()) {
    Require(!RecordInWords(record.key(), record.value()).empty());
    Redaction::Fresh().Record(record.key(), record.value());
  }
  for (const recording::StepRecord& step : block.steps()) {
    Require(!EventInWords(step.event()).empty());
    const absl::StatusOr<Event> event = RecordedEvent(step.event());
    Require(event.ok() == (step.event().kind_case() != recording::EventRecord::KIND_NOT_SET));
    if (event.ok()) {
      recording::EventRecord again;
      RecordEvent(*event, Redaction::OfRedacted(), &again);
      Require(again.kind_case() == step.event().kind_case());
    }
    recording::Decision decision;
    if (decision.ParseFromString(step.decision())) {
      Require(!DifferenceInWords("", decision).empty());
    }
    Require(!DifferenceInWords(step.decision(), recording::Decision()).empty());
  }
}

void ReadAsFile(absl::string_view bytes) {
  const auto reader = RecordingReader::From([bytes](char* to, size_t size) mutable {
    const size_t got = std::min(size, bytes.size());
    std::copy_n(bytes.data(), got, to);
    bytes.remove_prefix(got);
    return absl::StatusOr<size_t>(got);
  });
  if (!reader.ok()) return;
  RecordConfig(RecordedConfig((*reader)->header().config()));
  recording::Block block;
  while ((*reader)->Next(&block)) {
    Require(block.ByteSizeLong() <= kMaxBlockBytes);
    Look(block);
  }
  Require(!(*reader)->end().empty());
}

}  // namespace
}  // namespace capstan::scheduler

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::fuzzing::FuzzInput input(data, size);
  if (input.Flag()) {
    capstan::scheduler::ReadAsFile(input.Rest());
    return 0;
  }
  capstan::scheduler::recording::Block block;
  const absl::string_view rest = input.Rest();
  if (block.ParseFromArray(rest.data(), static_cast<int>(rest.size()))) {
    capstan::scheduler::Look(block);
  }
  return 0;
}
