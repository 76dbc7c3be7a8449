#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_SHOW_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_SHOW_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"
#include "tools/capstan/cli/invocation.h"
#include "tools/capstan/cli/log_selection.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::cli {

struct ShowJobOptions {
  // What stands before a state, e.g. the time of day. May be empty.
  std::function<std::string()> before_job_line;
  // How a state is shown; the same text is shown once. Empty shows none.
  std::function<std::string(const scheduler::v1::Job&)> job_line;
  // How a line of the log is shown. Empty shows no log; else the end of the log is waited for.
  std::function<std::string(const telemetry::v1::Record&)> log_line;
  // Show how the Job's data comes, if it is still to come.
  bool data = true;
};

// Shows a Job as it goes on, until it has ended; how it ended. Live lines go to terminals only.
// Blocks.
absl::StatusOr<scheduler::v1::Job> ShowJob(Platform& platform, const std::string& name,
                                           const ShowJobOptions& options, Invocation& invocation);

// Calls `on_line` with each line and gap, in order. A log that is not complete 10 s after the Job's
// end and the last line that came is given up, and said so on standard error. Blocks.
absl::Status ReadLog(Platform& platform, const LogSelection& selection, Invocation& invocation,
                     const std::function<void(const telemetry::v1::Record&)>& on_line);

// Calls `on_event` with each record of the Job's events, in order; followed, until the one that
// says how the Job ended. Blocks.
absl::Status ReadEvents(Platform& platform, const std::string& job, bool follow,
                        Invocation& invocation,
                        const std::function<void(const telemetry::v1::Record&)>& on_event);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_SHOW_H_
