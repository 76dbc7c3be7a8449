#ifndef CAPSTAN_SERVICES_SCHEDULER_RECORDER_REPLAY_H_
#define CAPSTAN_SERVICES_SCHEDULER_RECORDER_REPLAY_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/recorder/recording.pb.h"
#include "services/scheduler/recorder/recording_file.h"

namespace capstan::scheduler {

struct ReplayOptions {
  // Steps after this one are not taken; they count from 1.
  int64_t until = std::numeric_limits<int64_t>::max();
  // Told of each step before it is taken; may be null.
  std::function<void(int64_t step, const recording::StepRecord&)> on_step = nullptr;
  // Another configuration than the recorded one, to see what it would change.
  absl::optional<CoreConfig> config = absl::nullopt;
};

struct Replayed {
  int64_t steps = 0;
  int64_t rounds = 0;
  // The step, the last one taken, that decided otherwise than recorded; 0 if none did.
  int64_t different_step = 0;
  // What was to be decided on, and where the two part, for people; of a different step.
  std::string event;
  std::string difference;
};

// Loads a core from the recording and has it take the recorded events, up to the first step that
// decides otherwise, the recording's end, or `until`. INVALID_ARGUMENT with FILE_NOT_READABLE if
// the recording ends before all of what the core was loaded from.
absl::StatusOr<Replayed> Replay(RecordingReader* reader, const ReplayOptions& options);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_RECORDER_REPLAY_H_
