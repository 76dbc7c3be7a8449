// What a JobSpec says of other Jobs.
#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/resource/id.h"
#include "services/scheduler/core/validate.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::JobDependency;
using capstan::scheduler::v1::JobSpec;

void CheckDependencies(absl::string_view project, const JobSpec& spec, const std::string& path,
                       status::FieldErrors* errors) {
  if (spec.after_size() > kMaxDependencies) {
    errors->Add(path, absl::StrCat("has ", spec.after_size(), " entries; expected at most ",
                                   kMaxDependencies));
  }
  std::set<std::string> named;
  for (int i = 0; i < spec.after_size(); ++i) {
    const std::string field = absl::StrCat(path, "[", i, "]");
    const std::string& job = spec.after(i).job();
    absl::string_view id = job;
    if (!absl::ConsumePrefix(&id, absl::StrCat(project, "/jobs/")) || !resource::IsValidId(id)) {
      errors->Add(absl::StrCat(field, ".job"),
                  absl::StrCat("is `", job, "`; expected the id of a Job of ", project, ", or ",
                               project, "/jobs/{job}"));
    } else if (!named.insert(job).second) {
      errors->Add(absl::StrCat(field, ".job"),
                  absl::StrCat("`", job, "` is named twice; name it once"));
    }
    if (!JobDependency::Condition_IsValid(spec.after(i).condition())) {
      errors->Add(absl::StrCat(field, ".condition"),
                  absl::StrCat("is ", spec.after(i).condition(),
                               "; expected CONDITION_SUCCEEDED, CONDITION_ENDED, "
                               "CONDITION_NOT_SUCCEEDED or CONDITION_CORRESPONDING"));
    } else if (spec.after(i).condition() == JobDependency::CONDITION_CORRESPONDING &&
               !spec.has_array()) {
      errors->Add(absl::StrCat(field, ".condition"),
                  "is CONDITION_CORRESPONDING, which stands between two arrays, and this Job is "
                  "none; set array.size, or expect another end");
    }
  }
}

void CheckArray(const JobSpec& spec, const std::string& path, status::FieldErrors* errors) {
  if (!spec.has_array()) return;
  const int size = spec.array().size();
  if (size < 1 || size > kMaxArraySize) {
    errors->Add(absl::StrCat(path, ".size"),
                absl::StrCat("is ", size, "; expected 1 to ", kMaxArraySize));
  } else if (const size_t bytes = spec.ByteSizeLong(); bytes * size > kMaxArrayBytes) {
    errors->Add(absl::StrCat(path, ".size"),
                absl::StrCat("is ", size, ", each of ", bytes, " bytes; expected at most ",
                             kMaxArrayBytes, " bytes in all: fewer elements, or a smaller spec"));
  }
  if (spec.array().max_parallel() < 0 || spec.array().max_parallel() > kMaxArraySize) {
    errors->Add(absl::StrCat(path, ".max_parallel"),
                absl::StrCat("is ", spec.array().max_parallel(), "; expected 1 to ", kMaxArraySize,
                             ", or 0 for all at once"));
  }
}

void CheckSingleton(const std::string& key, const std::string& path, status::FieldErrors* errors) {
  const bool valid =
      key.size() <= kMaxSingletonBytes && std::all_of(key.begin(), key.end(), [](char c) {
        return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '/' || c == '-';
      });
  if (valid) return;
  errors->Add(path, absl::StrCat("is `", key, "`; expected 1 to ", kMaxSingletonBytes,
                                 " characters of [a-zA-Z0-9._/-], or nothing"));
}

}  // namespace

void ValidateOrder(absl::string_view project, const JobSpec& spec, absl::string_view path,
                   status::FieldErrors* errors) {
  CheckDependencies(project, spec, absl::StrCat(path, ".after"), errors);
  CheckArray(spec, absl::StrCat(path, ".array"), errors);
  CheckSingleton(spec.singleton(), absl::StrCat(path, ".singleton"), errors);
}

}  // namespace capstan::scheduler
