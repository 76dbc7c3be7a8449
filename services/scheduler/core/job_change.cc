#include "services/scheduler/core/job_change.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/resource/field_mask.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/validate.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::UpdateJobRequest;

constexpr absl::string_view kPriority = "spec.priority";
constexpr absl::string_view kTimeLimit = "spec.time_limit";
constexpr absl::string_view kHold = "hold";
constexpr std::array<absl::string_view, 3> kPaths = {kHold, kPriority, kTimeLimit};

// Longer than any path of a Job.
constexpr size_t kMaxShownBytes = 256;

bool Names(const UpdateJobRequest& request, absl::string_view path) {
  const auto& paths = request.update_mask().paths();
  return std::find(paths.begin(), paths.end(), path) != paths.end();
}

// Zero: none.
absl::Duration LimitOf(const JobSpec& spec) { return ToDuration(spec.time_limit()); }

std::string LimitInWords(absl::Duration limit) {
  return limit == absl::ZeroDuration() ? "none" : absl::FormatDuration(limit);
}

}  // namespace

void ValidateUpdateJob(const UpdateJobRequest& request, status::FieldErrors* errors) {
  const auto& mask = request.update_mask();
  const std::string expected = absl::StrCat("expected some of ", absl::StrJoin(kPaths, ", "));
  if (mask.paths().empty()) {
    errors->Add("update_mask", absl::StrCat("is empty; ", expected));
  }
  if (mask.paths_size() > resource::kMaxMaskPaths) {
    errors->Add("update_mask", absl::StrCat("has ", mask.paths_size(), " paths; ", expected));
    return;
  }
  for (const std::string& path : mask.paths()) {
    if (std::find(kPaths.begin(), kPaths.end(), path) != kPaths.end()) continue;
    const std::string named = path.size() > kMaxShownBytes
                                  ? absl::StrCat("a path of ", path.size(), " bytes")
                                  : absl::StrCat("`", path, "`");
    errors->Add("update_mask",
                absl::StrCat("names ", named, ", which cannot be changed of a Job; ", expected));
  }
  const JobSpec& spec = request.job().spec();
  if (Names(request, kPriority)) ValidatePriority(spec, "job.spec", errors);
  if (Names(request, kTimeLimit)) ValidateTimeLimit(spec, "job.spec", errors);
}

rec::JobChange JobChangeOf(const UpdateJobRequest& request) {
  rec::JobChange change;
  const JobSpec& spec = request.job().spec();
  if (Names(request, kPriority)) change.set_priority(spec.priority());
  if (Names(request, kTimeLimit)) *change.mutable_time_limit() = spec.time_limit();
  if (Names(request, kHold)) change.set_hold(request.job().hold());
  return change;
}

bool ChangesSpec(const rec::JobChange& change, const JobEntry& job) {
  const JobSpec& spec = job.spec.spec();
  return (change.has_priority() && change.priority() != spec.priority()) ||
         (change.has_time_limit() && ToDuration(change.time_limit()) != LimitOf(spec));
}

bool ChangesHold(const rec::JobChange& change, const JobEntry& job) {
  return change.has_hold() && change.hold() != job.state.hold();
}

void ApplyChange(const rec::JobChange& change, JobEntry* job) {
  JobSpec& spec = *job->spec.mutable_spec();
  if (change.has_priority()) spec.set_priority(change.priority());
  if (change.has_time_limit()) {
    *spec.mutable_time_limit() = change.time_limit();
    if (LimitOf(spec) == absl::ZeroDuration()) spec.clear_time_limit();
  }
  if (change.has_hold()) job->state.set_hold(change.hold());
}

std::string ChangeInWords(const rec::JobChange& change, const JobEntry& job) {
  const JobSpec& spec = job.spec.spec();
  std::vector<std::string> words;
  if (change.has_priority() && change.priority() != spec.priority()) {
    words.push_back(absl::StrCat("priority is ", change.priority(), ", and was ", spec.priority()));
  }
  if (change.has_time_limit() && ToDuration(change.time_limit()) != LimitOf(spec)) {
    words.push_back(absl::StrCat("time_limit is ", LimitInWords(ToDuration(change.time_limit())),
                                 ", and was ", LimitInWords(LimitOf(spec))));
  }
  if (ChangesHold(change, job)) {
    words.push_back(change.hold() ? "it is held" : "it is released");
  }
  return absl::StrJoin(words, "; ");
}

}  // namespace capstan::scheduler
