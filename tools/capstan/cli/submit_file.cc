#include "tools/capstan/cli/submit_file.h"

#include <climits>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "libs/config/locate.h"
#include "libs/resource/id.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/cli/v1/submit_file.pb.h"

namespace capstan::cli {
namespace {

absl::Status Violation(const Submission& submission, const std::string& path,
                       absl::string_view text) {
  status::FieldErrors errors;
  errors.Add(path, text);
  return LocateViolations(errors.ToStatus(), submission);
}

std::string InFolderOf(const std::string& file, const std::string& path) {
  if (absl::StartsWith(path, "/")) return path;
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? path : absl::StrCat(file.substr(0, slash + 1), path);
}

absl::StatusOr<std::string> AbsoluteFolder(const Submission& submission, const std::string& path) {
  char resolved[PATH_MAX];
  if (realpath(path.c_str(), resolved) == nullptr) {
    return Violation(submission, "spec.bundle",
                     absl::StrCat("'", path, "' is neither a folder here nor a digest sha256:…"));
  }
  return std::string(resolved);
}

// `digits` → `projects/p/datasets/digits`; names that have a `/` are left to the server.
void Qualify(absl::string_view prefix, std::string* name) {
  if (!name->empty() && !absl::StrContains(*name, "/")) *name = absl::StrCat(prefix, *name);
}

}  // namespace

absl::StatusOr<Submission> ParseSubmitFile(absl::string_view text, const std::string& file,
                                           const std::string& project, Random* random) {
  Submission submission;
  submission.file = file;
  v1::SubmitFile parsed;
  CAPSTAN_RETURN_IF_ERROR(config::ReadProto(text, file, &parsed, &submission.places));
  if (!parsed.has_spec()) return Violation(submission, "spec", "is missing: what should run?");

  const std::string id(absl::StripPrefix(
      parsed.project().empty() ? absl::string_view(project) : absl::string_view(parsed.project()),
      "projects/"));
  if (!resource::IsValidId(id)) {
    return Violation(submission, "project",
                     absl::StrCat("'", id, "' is not an id: ", resource::kIdRule));
  }
  submission.request.set_parent(absl::StrCat("projects/", id));

  std::string job_id = parsed.job_id();
  if (absl::EndsWith(job_id, "%")) {
    job_id.pop_back();
    absl::StrAppend(&job_id, absl::StrFormat("%05x", random->Below(0x100000)));
  }
  if (!job_id.empty() && !resource::IsValidId(job_id)) {
    return Violation(submission, "job_id",
                     absl::StrCat("'", job_id, "' is not an id: ", resource::kIdRule));
  }
  submission.request.set_job_id(job_id);
  submission.request.set_request_id(random->Uuid4());

  scheduler::v1::JobSpec& spec = *submission.request.mutable_job()->mutable_spec();
  spec = std::move(*parsed.mutable_spec());
  Qualify("queues/", spec.mutable_queue());
  // Ids in the API, which people may write as names.
  for (std::string& cluster : *spec.mutable_clusters()) {
    cluster = std::string(absl::StripPrefix(cluster, "clusters/"));
  }
  for (auto& mount : *spec.mutable_datasets()) {
    Qualify(absl::StrCat("projects/", id, "/datasets/"), mount.mutable_dataset());
  }
  if (!spec.bundle().empty() && !absl::StartsWith(spec.bundle(), "sha256:")) {
    CAPSTAN_ASSIGN_OR_RETURN(submission.bundle_folder,
                             AbsoluteFolder(submission, InFolderOf(file, spec.bundle())));
    spec.clear_bundle();
  }
  return submission;
}

absl::Status LocateViolations(const absl::Status& status, const Submission& submission) {
  return config::Locate(status, submission.places, submission.file, "job.");
}

}  // namespace capstan::cli
