// What may go into the archive of ended Jobs, and what can be asked of it.
#ifndef CAPSTAN_SERVICES_TELEMETRY_CORE_ARCHIVE_QUERY_H_
#define CAPSTAN_SERVICES_TELEMETRY_CORE_ARCHIVE_QUERY_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/telemetry/v1/archive.pb.h"

namespace capstan::telemetry {

// Bounds of a call.
inline constexpr int kMaxArchivedJobs = 100;
inline constexpr int64_t kMaxArchivedBytes = 2 << 20;

// Terms of a filter; what is not set matches everything.
struct ArchiveFilter {
  scheduler::v1::Job::State state = scheduler::v1::Job::STATE_UNSPECIFIED;
  std::string job{};  // id, the last segment of the name
  std::string uid{};
  std::string queue{};  // `queues/{q}`
  // [end_from, end_before)
  absl::Time end_from = absl::InfinitePast();
  absl::Time end_before = absl::InfiniteFuture();
  std::map<std::string, std::string> labels{};
};

// As ListArchivedJobsRequest.filter says. INVALID_ARGUMENT names the term.
absl::StatusOr<ArchiveFilter> ParseArchiveFilter(const std::string& text);

// INVALID_ARGUMENT with everything that is wrong.
absl::Status CheckArchive(const v1::ArchiveJobsRequest& request);
absl::Status CheckGet(const v1::GetArchivedJobRequest& request);
absl::Status CheckList(const v1::ListArchivedJobsRequest& request);

// `projects/{p}` of a Job's name.
std::string ProjectOfJob(const std::string& name);

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_CORE_ARCHIVE_QUERY_H_
