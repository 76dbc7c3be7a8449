#include "tools/capstan/cli/archived_jobs.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "libs/resource/quantity.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "proto/capstan/telemetry/v1/archive.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/list_all.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/whole_number.h"

namespace capstan::cli {
namespace {

using scheduler::v1::GetJobRequest;
using scheduler::v1::Job;
using scheduler::v1::JobService;
using telemetry::v1::ArchiveService;
using telemetry::v1::GetArchivedJobRequest;
using telemetry::v1::ListArchivedJobsRequest;
using telemetry::v1::ListArchivedJobsResponse;

constexpr int kPageSize = 1000;
constexpr int kMostDays = 36'500;

std::tuple<absl::Time, std::string> AgeOf(const Job& job) {
  return {ToTime(job.create_time()), job.uid()};
}

}  // namespace

absl::StatusOr<absl::Duration> ParseAge(const std::string& text) {
  absl::string_view number = text;
  if (absl::ConsumeSuffix(&number, "d")) {
    const absl::optional<int64_t> days = ParseWholeNumber(number);
    if (days.has_value() && *days <= kMostDays) return absl::Hours(24) * *days;
  }
  return resource::ParseDuration(text);
}

absl::StatusOr<Job> FindJob(Platform* platform, const std::string& name,
                            const Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto scheduler, platform->Channel("scheduler"));
  const auto jobs = JobService::NewStub(scheduler);
  GetJobRequest request;
  request.set_name(name);
  absl::StatusOr<Job> live =
      Call(jobs.get(), &JobService::Stub::GetJob, request, Terms(invocation));
  if (!absl::IsNotFound(live.status())) return live;
  CAPSTAN_ASSIGN_OR_RETURN(const auto telemetry, platform->Channel("telemetry"));
  const auto archive = ArchiveService::NewStub(telemetry);
  GetArchivedJobRequest archived_request;
  archived_request.set_name(name);
  auto archived = Call(archive.get(), &ArchiveService::Stub::GetArchivedJob, archived_request,
                       Terms(invocation));
  if (archived.ok()) return std::move(*archived->mutable_job());
  return absl::IsNotFound(archived.status()) ? live.status() : archived.status();
}

std::vector<Job> MergeJobs(std::vector<Job> live, std::vector<Job> archived, absl::Time since) {
  std::vector<Job> all;
  std::set<std::string> uids;
  for (std::vector<Job>* jobs : {&live, &archived}) {
    for (Job& job : *jobs) {
      if (job.has_end_time() && ToTime(job.end_time()) < since) continue;
      if (uids.insert(job.uid()).second) all.push_back(std::move(job));
    }
  }
  std::sort(all.begin(), all.end(), [](const Job& a, const Job& b) { return AgeOf(a) > AgeOf(b); });
  return all;
}

absl::StatusOr<std::vector<Job>> WithArchivedJobs(std::vector<Job> live, const std::string& filter,
                                                  absl::Time since, Platform* platform,
                                                  const Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform->Channel("telemetry"));
  const auto archive = ArchiveService::NewStub(channel);
  ListArchivedJobsRequest request;
  request.set_parent(ProjectParent(invocation.project));
  request.set_page_size(kPageSize);
  const std::string ended =
      absl::StrCat("end_time>=", absl::FormatTime(absl::RFC3339_full, since, absl::UTCTimeZone()));
  request.set_filter(filter.empty() ? ended : absl::StrCat(filter, " AND ", ended));
  CAPSTAN_ASSIGN_OR_RETURN(auto entries,
                           ListAll(archive.get(), &ArchiveService::Stub::ListArchivedJobs, request,
                                   &ListArchivedJobsResponse::mutable_jobs, Terms(invocation)));
  std::vector<Job> archived;
  for (auto& entry : entries) archived.push_back(std::move(*entry.mutable_job()));
  return MergeJobs(std::move(live), std::move(archived), since);
}

}  // namespace capstan::cli
