#ifndef CAPSTAN_SERVICES_SCHEDULER_RECORDER_RECORDING_FOLDER_H_
#define CAPSTAN_SERVICES_SCHEDULER_RECORDER_RECORDING_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace capstan::scheduler {

// A file in the folder of recordings.
struct RecordingFile {
  std::string path;
  int64_t bytes = 0;
};

// Oldest first; none if there is no folder.
std::vector<RecordingFile> RecordingsIn(const std::string& folder);

// Removes the oldest until at most 63 of `keep_bytes` are left, and returns the path of a new one,
// whose name sorts by when it began. Makes the folder (0700).
absl::StatusOr<std::string> MakeRoomForRecording(const std::string& folder, int64_t keep_bytes,
                                                 absl::Time begin, int64_t leader_epoch);

// The SHA-256 of this program's file, in hex; `unknown` if it cannot be read. Reads the whole file.
std::string OwnBuildId();

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_RECORDER_RECORDING_FOLDER_H_
