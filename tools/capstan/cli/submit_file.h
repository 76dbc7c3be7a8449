#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_SUBMIT_FILE_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_SUBMIT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/config/proto_reader.h"
#include "libs/random/random.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"

namespace capstan::cli {

// A submit file, read and completed: ready to be sent but for the Bundle's upload.
struct Submission {
  scheduler::v1::CreateJobRequest request;
  // Absolute path of the folder to upload; empty if the Job brings none.
  std::string bundle_folder;
  // Where the fields were written.
  config::SourceMap places;
  std::string file;
};

// Reads a SubmitFile (see proto/capstan/cli/v1/submit_file.proto) from the text of `file`.
// `project` is used if the file names none.
absl::StatusOr<Submission> ParseSubmitFile(absl::string_view text, const std::string& file,
                                           const std::string& project, Random* random);

// A server's refusal in terms of the file: field violations get the line and column at which the
// field, or the nearest one above it, was written. Other errors come back as they are.
absl::Status LocateViolations(const absl::Status& status, const Submission& submission);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_SUBMIT_FILE_H_
