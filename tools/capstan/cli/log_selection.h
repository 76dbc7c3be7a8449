#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_LOG_SELECTION_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_LOG_SELECTION_H_

#include <cstdint>
#include <string>

#include "absl/types/optional.h"

namespace capstan::cli {

// Part of a Job's log.
struct LogSelection {
  // `projects/{p}/jobs/{j}`.
  std::string job;
  // Only the last lines.
  absl::optional<int64_t> tail;
  absl::optional<int> rank;
  absl::optional<int64_t> generation;
  // Go on until the Job has ended and its log is complete.
  bool follow = false;
};

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_LOG_SELECTION_H_
