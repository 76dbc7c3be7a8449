#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_CHANGES_FILE_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_CHANGES_FILE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/config/proto_reader.h"
#include "proto/capstan/scheduler/v1/simulation_service.pb.h"
#include "tools/capstan/cli/submit_file.h"

namespace capstan::cli {

// A file of alternatives, read and completed: ready to be sent.
struct Changes {
  // One alternative of the request, as the file has it.
  struct Alternative {
    std::string name;
    std::vector<Submission> jobs;
    // Where in the file each change of Nodes was written.
    std::vector<std::string> node_changes;
  };

  scheduler::v1::SimulateChangesRequest request;
  std::vector<Alternative> alternatives;
  // Where the fields were written.
  config::SourceMap places;
  std::string file;
};

// Reads a submit file, of the Project unless it names another.
using SubmissionReader =
    std::function<absl::StatusOr<Submission>(const std::string& file, const std::string& project)>;

// Reads a ChangesFile (see proto/capstan/cli/v1/changes_file.proto) from the text of `file`.
// `project` is used if the file names none. INVALID_ARGUMENT says what is wrong where.
absl::StatusOr<Changes> ParseChangesFile(absl::string_view text, const std::string& file,
                                         const std::string& project,
                                         const SubmissionReader& read_submission);

// A server's refusal in terms of the files: field violations get the line and column at which the
// field, or the nearest one above it, was written. Other errors come back as they are.
absl::Status LocateChanges(const absl::Status& status, const Changes& changes);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_CHANGES_FILE_H_
