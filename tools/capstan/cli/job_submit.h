#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_SUBMIT_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_SUBMIT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/capstan/dataloader/v1/bundle.pb.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "tools/capstan/cli/invocation.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/cli/submit_file.h"

namespace capstan::cli {

struct SubmitOptions {
  // `-` is standard input.
  std::string file;
  // Overrides the file's.
  std::string job_id;
  // Jobs to wait for beside the file's: `JOB[:CONDITION]`.
  std::vector<std::string> after;
  // `N` or `N%M`: an array, instead of the file's; empty: as the file says.
  std::string array;
  // Instead of the file's; empty: as the file says.
  std::string singleton;
  // It does not start before it is released.
  bool hold = false;
  bool dry_run = false;
  // Watch until the Job has ended; its end decides the exit code.
  bool watch = false;
  // The same, with the log.
  bool follow = false;
};

// Everything about the file that needs no platform.
absl::StatusOr<Submission> ReadSubmission(const SubmitOptions& options, Invocation& invocation);

// Uploads a folder as a Bundle of the project, unless its content is there already.
absl::StatusOr<dataloader::v1::Bundle> UploadBundle(Platform& platform, const std::string& parent,
                                                    const std::string& folder);

// Reads, completes, uploads and creates; prints nothing. With `dry_run` the server checks and
// stores nothing, and no Bundle is uploaded.
absl::StatusOr<scheduler::v1::Job> CreateJobFromFile(const SubmitOptions& options,
                                                     Platform& platform, Invocation& invocation);

// `bundle upload`: into the project, from a folder here.
absl::Status UploadBundleFolder(const std::string& folder, Invocation& invocation);

// `job submit`.
absl::Status SubmitJob(const SubmitOptions& options, Invocation& invocation);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_JOB_SUBMIT_H_
