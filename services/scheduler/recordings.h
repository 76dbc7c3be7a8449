#ifndef CAPSTAN_SERVICES_SCHEDULER_RECORDINGS_H_
#define CAPSTAN_SERVICES_SCHEDULER_RECORDINGS_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace capstan::scheduler {

// What the flight recorder left, for a program for people.
struct Recording {
  std::string path;
  int64_t bytes = 0;
  // When the term of leadership began, and its epoch.
  absl::Time begin;
  int64_t leader_epoch = 0;
  std::string build_id;
};

// Those of a folder that can be read, oldest first.
std::vector<Recording> ListRecordings(const std::string& folder);

struct RecordingReplay {
  int64_t steps = 0;
  int64_t rounds = 0;
  // True if every step decided as recorded.
  bool identical = true;
};

// Replays a recording by this program's scheduler up to step `until` (0: to its end), and says how
// it went on `out`: the first difference, if there is one, with what is to be known beside it on
// `notes`; each step with `verbose`. INVALID_ARGUMENT with FILE_NOT_READABLE if it cannot be read;
// what is only cut off or damaged at its end is replayed that far.
absl::StatusOr<RecordingReplay> ReplayRecording(const std::string& path, int64_t until,
                                                bool verbose, std::ostream* out,
                                                std::ostream* notes);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_RECORDINGS_H_
