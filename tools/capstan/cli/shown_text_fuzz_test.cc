// What a platform answers, and what Tasks write to their logs, shown to a person: it comes to an
// end, and nothing in it is obeyed by the terminal.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "libs/utf8/utf8.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "tools/capstan/cli/job_text.h"
#include "tools/capstan/cli/log_line.h"
#include "tools/capstan/cli/quota_text.h"
#include "tools/capstan/cli/simulation_text.h"
#include "tools/capstan/cli/terminal.h"

namespace {

using capstan::cli::Terminal;
using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::MakeMessage;
using capstan::fuzzing::Require;
using capstan::scheduler::v1::Job;

const std::vector<std::string>& Words() {
  static const auto& words = *new std::vector<std::string>{
      "projects/p/jobs/j", "\x1b[2J", "\u009b31m", "line\nnext",    "\u00e9",   "cpu", "memory",
      "nvidia.com/h100",   "rank",    "gap",       "AWAITING_DATA", "BACK_OFF", ""};
  return words;
}

void CheckShown(absl::string_view text, bool one_line) {
  while (!text.empty()) {
    const size_t length = capstan::CharacterLength(text);
    Require(length > 0);
    const absl::string_view character = text.substr(0, length);
    const bool allowed = character == "\t" || (character == "\n" && !one_line) || length == 3;
    Require(allowed || !capstan::IsControl(character));
    text.remove_prefix(length);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  // Without colours, which are commands of our own.
  const Terminal terminal;
  FuzzInput input(data, size);
  switch (input.Below(6)) {
    case 0: {
      const Job job = MakeMessage<Job>(Words(), &input);
      CheckShown(capstan::cli::DescribeJob(job, now, terminal), /*one_line=*/false);
      CheckShown(capstan::cli::JobLine(job, now, terminal), /*one_line=*/true);
      for (const auto& column : capstan::cli::JobColumns(now)) (void)column.cell(job);
      break;
    }
    case 1: {
      const auto explanation =
          MakeMessage<capstan::scheduler::v1::ExplainJobResponse>(Words(), &input);
      CheckShown(capstan::cli::DescribeExplanation(explanation, terminal), /*one_line=*/false);
      break;
    }
    case 2: {
      const auto queue = MakeMessage<capstan::scheduler::v1::Queue>(Words(), &input);
      CheckShown(capstan::cli::DescribeQueue(queue, now, terminal), /*one_line=*/false);
      (void)capstan::cli::GuaranteesInWords(queue);
      (void)capstan::cli::AverageUseInWords(queue);
      break;
    }
    case 3: {
      auto record = MakeMessage<capstan::telemetry::v1::Record>(Words(), &input);
      record.set_payload(std::string(input.Rest()));
      CheckShown(capstan::cli::FormatLogLine(record, {.rank = true, .time = true}, terminal),
                 /*one_line=*/true);
      break;
    }
    case 4: {
      const auto simulated =
          MakeMessage<capstan::scheduler::v1::SimulatePlacementResponse>(Words(), &input);
      CheckShown(
          capstan::cli::DescribeSimulation(simulated, {"train.yaml"}, input.Flag(), now, terminal),
          /*one_line=*/false);
      break;
    }
    default: {
      const std::string shown = capstan::cli::WithoutControls(input.Rest());
      CheckShown(shown, /*one_line=*/true);
      Require(capstan::cli::WithoutControls(shown) == shown);
    }
  }
  return 0;
}
