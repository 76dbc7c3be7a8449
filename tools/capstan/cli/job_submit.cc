#include "tools/capstan/cli/job_submit.h"

#include <fcntl.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/data_commands.h"
#include "tools/capstan/cli/job_commands.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/printer.h"
#include "tools/capstan/cli/submit_file.h"
#include "tools/capstan/cli/whole_number.h"

namespace capstan::cli {
namespace {

using scheduler::v1::Job;
using scheduler::v1::JobArray;
using scheduler::v1::JobDependency;
using scheduler::v1::JobService;

constexpr size_t kMaxFileBytes = 1 << 20;

absl::StatusOr<std::string> ReadSubmitText(const std::string& file) {
  if (file == "-") return ReadAll(STDIN_FILENO, kMaxFileBytes, "standard input");
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    const absl::Status why = ErrnoStatus(errno, "opening", file);
    return status::Error(why.code(), "FILE_NOT_READABLE", why.message(), {{"file", file}});
  }
  return ReadAll(fd.get(), kMaxFileBytes, file);
}

absl::StatusOr<JobDependency> ParseDependency(const std::string& text) {
  static constexpr std::pair<absl::string_view, JobDependency::Condition> kConditions[] = {
      {"succeeded", JobDependency::CONDITION_SUCCEEDED},
      {"ended", JobDependency::CONDITION_ENDED},
      {"not-succeeded", JobDependency::CONDITION_NOT_SUCCEEDED},
      {"corresponding", JobDependency::CONDITION_CORRESPONDING}};
  const std::pair<std::string, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  JobDependency dependency;
  dependency.set_job(parts.first);
  if (!absl::StrContains(text, ':')) return dependency;
  for (const auto& [name, condition] : kConditions) {
    if (parts.second == name) {
      dependency.set_condition(condition);
      return dependency;
    }
  }
  return status::Error(absl::StatusCode::kInvalidArgument, "NO_SUCH_CONDITION",
                       absl::StrCat("--after: `", parts.second, "` in `", text,
                                    "` is no condition; expected JOB, JOB:succeeded, JOB:ended, "
                                    "JOB:not-succeeded or JOB:corresponding"));
}

absl::StatusOr<JobArray> ParseArray(const std::string& text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('%', 1));
  const bool bounded = absl::StrContains(text, '%');
  const int64_t size = ParseWholeNumber(parts.first).value_or(0);
  const int64_t most = bounded ? ParseWholeNumber(parts.second).value_or(0) : 0;
  // What is beyond the platform's bounds it says itself.
  if (size < 1 || size > INT_MAX || (bounded && most < 1) || most > INT_MAX) {
    return status::Error(absl::StatusCode::kInvalidArgument, "NO_SUCH_ARRAY",
                         absl::StrCat("--array: is `", text,
                                      "`; expected N, or N%M for at most M of them at once, e.g. "
                                      "100%10"));
  }
  JobArray array;
  array.set_size(static_cast<int>(size));
  array.set_max_parallel(static_cast<int>(most));
  return array;
}

absl::StatusOr<Job> CreateJob(const SubmitOptions& options, Submission submission,
                              Platform& platform, Invocation& invocation) {
  if (!options.job_id.empty()) submission.request.set_job_id(options.job_id);
  submission.request.set_validate_only(options.dry_run);
  if (!submission.bundle_folder.empty() && !options.dry_run) {
    CAPSTAN_ASSIGN_OR_RETURN(
        dataloader::v1::Bundle bundle,
        UploadBundle(platform, submission.request.parent(), submission.bundle_folder));
    submission.request.mutable_job()->mutable_spec()->set_bundle(bundle.digest());
  }
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform.Channel("scheduler"));
  const auto stub = JobService::NewStub(channel);
  absl::StatusOr<Job> job =
      Call(stub.get(), &JobService::Stub::CreateJob, submission.request, Terms(invocation));
  if (!job.ok()) return LocateViolations(job.status(), submission);
  return job;
}

}  // namespace

absl::StatusOr<Submission> ReadSubmission(const SubmitOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string text, ReadSubmitText(options.file));
  const std::string shown = options.file == "-" ? "stdin" : options.file;
  CAPSTAN_ASSIGN_OR_RETURN(Submission submission,
                           ParseSubmitFile(text, shown, invocation.project, invocation.random));
  for (const std::string& after : options.after) {
    CAPSTAN_ASSIGN_OR_RETURN(*submission.request.mutable_job()->mutable_spec()->add_after(),
                             ParseDependency(after));
  }
  if (!options.array.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(*submission.request.mutable_job()->mutable_spec()->mutable_array(),
                             ParseArray(options.array));
  }
  if (options.hold) submission.request.mutable_job()->set_hold(true);
  if (!options.singleton.empty()) {
    submission.request.mutable_job()->mutable_spec()->set_singleton(options.singleton);
  }
  return submission;
}

absl::StatusOr<Job> CreateJobFromFile(const SubmitOptions& options, Platform& platform,
                                      Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(Submission submission, ReadSubmission(options, invocation));
  return CreateJob(options, std::move(submission), platform, invocation);
}

absl::Status UploadBundleFolder(const std::string& folder, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const dataloader::v1::Bundle bundle,
                           UploadBundle(*platform, ProjectParent(invocation.project), folder));
  return PrintResource<dataloader::v1::Bundle>(invocation, bundle, DescribeBundle);
}

absl::Status SubmitJob(const SubmitOptions& options, Invocation& invocation) {
  // A mistake in the file is told whether a platform runs or not.
  CAPSTAN_ASSIGN_OR_RETURN(Submission submission, ReadSubmission(options, invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const Job job,
                           CreateJob(options, std::move(submission), *platform, invocation));
  CAPSTAN_RETURN_IF_ERROR(PrintResource<Job>(invocation, job, [&](const Job& created) {
    if (options.dry_run) return absl::StrCat(options.file, " is good; nothing was stored\n");
    if (created.has_array()) {
      return absl::StrCat(created.name(), " created, an array of ", created.array().size(),
                          " Jobs\n");
    }
    return absl::StrCat(created.name(), " created\n");
  }));
  if (options.dry_run || !(options.watch || options.follow)) return absl::OkStatus();
  invocation.out->flush();
  return WatchJob(job.name(), options.follow, invocation);
}

}  // namespace capstan::cli
