#include "services/telemetry/core/archive_query.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/resource/name.h"
#include "libs/status/error.h"

namespace capstan::telemetry {
namespace {

using scheduler::v1::Job;

constexpr char kTermExpected[] =
    "expected state=STATE, job={id}, uid={uid}, queue=queues/{q}, labels.{key}={value}, "
    "end_time>=TIME or end_time<TIME (RFC 3339), joined by ` AND `";

bool ReadTime(absl::string_view text, absl::Time* time) {
  std::string error;
  return absl::ParseTime(absl::RFC3339_full, text, time, &error);
}

// False if the term makes no sense.
bool ReadTerm(absl::string_view term, ArchiveFilter* filter) {
  absl::string_view rest = term;
  if (absl::ConsumePrefix(&rest, "end_time>=")) return ReadTime(rest, &filter->end_from);
  if (absl::ConsumePrefix(&rest, "end_time<")) return ReadTime(rest, &filter->end_before);
  const std::vector<std::string> sides = absl::StrSplit(term, absl::MaxSplits('=', 1));
  if (sides.size() != 2 || sides[1].empty()) return false;
  if (sides[0] == "state") {
    return Job::State_Parse(absl::StrCat("STATE_", sides[1]), &filter->state) &&
           filter->state != Job::STATE_UNSPECIFIED;
  }
  absl::string_view label = sides[0];
  if (absl::ConsumePrefix(&label, "labels.") && !label.empty()) {
    return filter->labels.emplace(std::string(label), sides[1]).second;
  }
  if (sides[0] == "job") {
    filter->job = sides[1];
  } else if (sides[0] == "uid") {
    filter->uid = sides[1];
  } else if (sides[0] == "queue" && resource::QueueName::Parse(sides[1]).ok()) {
    filter->queue = sides[1];
  } else {
    return false;
  }
  return true;
}

bool IsFinal(Job::State state) {
  return state == Job::STATE_SUCCEEDED || state == Job::STATE_FAILED ||
         state == Job::STATE_CANCELLED;
}

}  // namespace

absl::StatusOr<ArchiveFilter> ParseArchiveFilter(const std::string& text) {
  ArchiveFilter filter;
  if (text.empty()) return filter;
  status::FieldErrors errors;
  for (const absl::string_view term : absl::StrSplit(text, " AND ")) {
    if (ReadTerm(term, &filter)) continue;
    errors.Add("filter", absl::StrCat("has the term `", term, "`; ", kTermExpected));
  }
  if (!errors.ok()) return errors.ToStatus();
  return filter;
}

absl::Status CheckArchive(const v1::ArchiveJobsRequest& request) {
  status::FieldErrors errors;
  if (request.jobs().empty() || request.jobs_size() > kMaxArchivedJobs) {
    errors.Add("jobs", absl::StrCat("has ", request.jobs_size(), " Jobs, expected 1 to ",
                                    kMaxArchivedJobs));
  }
  const auto bytes = static_cast<int64_t>(request.ByteSizeLong());
  // One Job alone may be larger than a batch should be.
  if (bytes > kMaxArchivedBytes && request.jobs_size() > 1) {
    errors.Add("jobs", absl::StrCat("has ", bytes, " bytes, at most ", kMaxArchivedBytes));
  }
  for (int i = 0; i < request.jobs_size(); ++i) {
    const Job& job = request.jobs(i);
    const std::string at = absl::StrCat("jobs[", i, "].");
    if (!resource::JobName::Parse(job.name()).ok()) {
      errors.Add(absl::StrCat(at, "name"),
                 absl::StrCat("is `", job.name(), "`; expected ", resource::JobName::kPattern));
    }
    if (job.uid().empty() || job.uid().size() > 64) {
      errors.Add(absl::StrCat(at, "uid"), "expected 1 to 64 bytes");
    }
    if (!IsFinal(job.state())) {
      errors.Add(absl::StrCat(at, "state"), absl::StrCat("is ", Job::State_Name(job.state()),
                                                         "; only what has ended is archived"));
    }
    if (!job.has_create_time() || !job.has_end_time()) {
      errors.Add(absl::StrCat(at, "end_time"), "expected create_time and end_time");
    }
  }
  return errors.ToStatus();
}

absl::Status CheckGet(const v1::GetArchivedJobRequest& request) {
  status::FieldErrors errors;
  if (!resource::JobName::Parse(request.name()).ok()) {
    errors.Add("name",
               absl::StrCat("is `", request.name(), "`; expected ", resource::JobName::kPattern));
  }
  return errors.ToStatus();
}

absl::Status CheckList(const v1::ListArchivedJobsRequest& request) {
  status::FieldErrors errors;
  if (!resource::ProjectName::Parse(request.parent()).ok()) {
    errors.Add("parent", absl::StrCat("is `", request.parent(), "`; expected ",
                                      resource::ProjectName::kPattern));
  }
  return errors.ToStatus();
}

std::string ProjectOfJob(const std::string& name) { return name.substr(0, name.find("/jobs/")); }

}  // namespace capstan::telemetry
