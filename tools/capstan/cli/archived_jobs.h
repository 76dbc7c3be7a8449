// Jobs that have left the scheduler for the archive, beside those that it still has.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_ARCHIVED_JOBS_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_ARCHIVED_JOBS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "tools/capstan/cli/invocation.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::cli {

// `7d`, `36h`, `1h30m`.
absl::StatusOr<absl::Duration> ParseAge(const std::string& text);

// The Job from the scheduler, or if it has none of that name the newest one from the archive.
absl::StatusOr<scheduler::v1::Job> FindJob(Platform* platform, const std::string& name,
                                           const Invocation& invocation);

// Makes one list of the scheduler's Jobs and the archive's: those that had not ended before
// `since`, each once (by uid, for a Job may be in both for a moment, and `live` was asked first, so
// that none is missed), newest first, of equal times the higher uid.
std::vector<scheduler::v1::Job> MergeJobs(std::vector<scheduler::v1::Job> live,
                                          std::vector<scheduler::v1::Job> archived,
                                          absl::Time since);

// `live` and what the archive has of the project, by MergeJobs. `filter` as ListArchivedJobs takes
// it.
absl::StatusOr<std::vector<scheduler::v1::Job>> WithArchivedJobs(
    std::vector<scheduler::v1::Job> live, const std::string& filter, absl::Time since,
    Platform* platform, const Invocation& invocation);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_ARCHIVED_JOBS_H_
