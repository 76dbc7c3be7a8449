#include "services/scheduler/recordings.h"

#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/status/status_macros.h"
#include "services/scheduler/recorder/event_record.h"
#include "services/scheduler/recorder/recording_file.h"
#include "services/scheduler/recorder/recording_folder.h"
#include "services/scheduler/recorder/replay.h"

namespace capstan::scheduler {
namespace {

constexpr int kShownOfBuildId = 12;

// Text of a file, for a terminal.
std::string Shown(absl::string_view text) { return absl::CHexEscape(text); }

std::string Counted(int64_t count, absl::string_view what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

}  // namespace

std::vector<Recording> ListRecordings(const std::string& folder) {
  std::vector<Recording> recordings;
  for (const RecordingFile& file : RecordingsIn(folder)) {
    const auto reader = RecordingReader::Open(file.path);
    if (!reader.ok()) continue;
    const recording::RecordingHeader& header = (*reader)->header();
    recordings.push_back({file.path, file.bytes, absl::FromUnixNanos(header.wall_ns()),
                          header.leader_epoch(), Shown(header.build_id())});
  }
  return recordings;
}

absl::StatusOr<RecordingReplay> ReplayRecording(const std::string& path, int64_t until,
                                                bool verbose, std::ostream* out,
                                                std::ostream* notes) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<RecordingReader> reader,
                           RecordingReader::Open(path));
  const std::string& build = reader->header().build_id();
  if (build != OwnBuildId()) {
    *notes << "warning: another program decided than this one replays with, of build id "
           << Shown(build.substr(0, kShownOfBuildId))
           << "; where they differ, so may their decisions\n";
  }
  ReplayOptions options;
  if (until > 0) options.until = until;
  if (verbose) {
    options.on_step = [out](int64_t number, const recording::StepRecord& step) {
      *out << number << " +" << absl::FormatDuration(FromNanoseconds(step.boot_delta_ns())) << " "
           << Shown(EventInWords(step.event())) << (step.round() ? ", round" : "") << "\n";
    };
  }
  CAPSTAN_ASSIGN_OR_RETURN(const Replayed replayed, Replay(reader.get(), options));
  RecordingReplay result;
  result.steps = replayed.steps;
  result.rounds = replayed.rounds;
  result.identical = replayed.different_step == 0;
  *out << "replayed " << Counted(replayed.steps, "step") << ", "
       << Counted(replayed.rounds, "round") << ": ";
  if (result.identical) {
    *out << "identical\n";
  } else {
    *out << "step " << replayed.different_step << " decides otherwise\n"
         << "event: " << Shown(replayed.event) << "\n"
         << replayed.difference;
  }
  if (result.identical && !reader->end().empty()) {
    *notes << (reader->damaged() ? "warning: the recording is damaged from here on: "
                                 : "the recording ends here: ")
           << Shown(reader->end()) << "\n";
  }
  return result;
}

}  // namespace capstan::scheduler
