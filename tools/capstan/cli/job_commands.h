// What the `job` commands do, but for `job submit`.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_COMMANDS_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_COMMANDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::cli {

struct ListJobsOptions {
  // As the API takes it: `state=RUNNING AND queue=queues/q`.
  std::string filter;
  std::string state;
  std::string queue;
  // Only the elements of this array.
  std::string array;
  bool watch = false;
  // Of archived Jobs too: what had not ended so long ago (`7d`); empty: the scheduler's alone.
  std::string since;
};
absl::Status ListJobs(const ListJobsOptions& options, Invocation& invocation);

absl::Status GetJob(const std::string& name, Invocation& invocation);

// Prints each state, how the data comes and, if wanted, the log, until the Job has ended; fails
// with ExitCode::kFailed unless it succeeded.
absl::Status WatchJob(const std::string& name, bool with_log, Invocation& invocation);

absl::Status ExplainJob(const std::string& name, Invocation& invocation);

// Of `--time-limit`: as long as it takes.
inline constexpr char kNoTimeLimit[] = "none";

struct UpdateJobOptions {
  std::string name;
  // What is not given stays.
  absl::optional<int> priority;
  // A duration, or kNoTimeLimit.
  std::string time_limit;
  bool dry_run = false;
};
absl::Status UpdateJob(const UpdateJobOptions& options, Invocation& invocation);

// One after the other, up to the first that cannot be.
absl::Status HoldJobs(const std::vector<std::string>& names, bool hold, Invocation& invocation);

struct CancelOptions {
  std::string name;
  // Wait until it has ended.
  bool wait = false;
};
absl::Status CancelJob(const CancelOptions& options, Invocation& invocation);

struct LogsOptions {
  std::string name;
  // Until the Job has ended and its log is complete.
  bool follow = false;
  absl::optional<int64_t> tail;
  absl::optional<int> rank;
  absl::optional<int64_t> generation;
  bool timestamps = false;
};
absl::Status ShowLogs(const LogsOptions& options, Invocation& invocation);

struct EventsOptions {
  std::string name;
  bool follow = false;
};
absl::Status ShowEvents(const EventsOptions& options, Invocation& invocation);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_COMMANDS_H_
