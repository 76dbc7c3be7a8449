#include "tools/capstan/cli/job_simulate.h"

#include <climits>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/connection.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/job_submit.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/printer.h"
#include "tools/capstan/cli/simulation_text.h"
#include "tools/capstan/cli/submit_file.h"
#include "tools/capstan/cli/whole_number.h"

namespace capstan::cli {
namespace {

using scheduler::v1::JobService;
using scheduler::v1::SimulatePlacementRequest;
using scheduler::v1::SimulatePlacementResponse;

absl::StatusOr<SimulatePlacementRequest::AddedNodes> ParseAddedNodes(const std::string& text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  const int64_t count = ParseWholeNumber(parts.first).value_or(0);
  if (count < 1 || count > INT_MAX || parts.second.empty()) {
    return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_NODES",
                         absl::StrCat("--add-nodes: `", text,
                                      "` is not how many Nodes like which one; expected "
                                      "COUNT=NODE, e.g. 10=node-0"));
  }
  SimulatePlacementRequest::AddedNodes add;
  add.set_count(static_cast<int>(count));
  add.set_like(NodeResource(parts.second));
  return add;
}

// A refusal in terms of the files.
absl::Status Located(const absl::Status& status, const std::vector<Submission>& submissions) {
  std::string message;
  size_t located = 0;
  const std::vector<status::FieldViolation> violations = status::GetFieldViolations(status);
  for (size_t i = 0; i < submissions.size(); ++i) {
    const std::string prefix = absl::StrCat("jobs[", i, "].");
    status::FieldErrors errors;
    for (const status::FieldViolation& violation : violations) {
      absl::string_view path = violation.field;
      if (!absl::ConsumePrefix(&path, prefix)) continue;
      errors.Add(absl::StrCat("job.spec.", path), violation.description);
      ++located;
    }
    if (errors.ok()) continue;
    absl::StrAppend(&message, message.empty() ? "" : "\n",
                    LocateViolations(errors.ToStatus(), submissions[i]).message());
  }
  if (located == 0 || located < violations.size()) return status;
  return status::Error(status.code(), "INVALID_FILE", message);
}

}  // namespace

absl::Status SimulateJobs(const SimulateOptions& options, Invocation& invocation) {
  SimulatePlacementRequest request;
  request.set_parent(ProjectParent(invocation.project));
  std::vector<Submission> submissions;
  std::vector<std::string> names;
  for (const std::string& file : options.files) {
    SubmitOptions submit;
    submit.file = file;
    CAPSTAN_ASSIGN_OR_RETURN(Submission submission, ReadSubmission(submit, invocation));
    const std::string& parent = submission.request.parent();
    if (!submissions.empty() && parent != request.parent()) {
      return status::Error(
          absl::StatusCode::kInvalidArgument, "SEVERAL_PROJECTS",
          absl::StrCat(file, " is of ", parent, ", and ", names.front(), " of ", request.parent(),
                       "; simulate the Jobs of one Project at a time"));
    }
    request.set_parent(parent);
    *request.add_jobs() = submission.request.job().spec();
    names.push_back(file == "-" ? "stdin" : LastSegment(file));
    submissions.push_back(std::move(submission));
  }
  for (const std::string& text : options.add_nodes) {
    CAPSTAN_ASSIGN_OR_RETURN(*request.add_node_changes()->mutable_add(), ParseAddedNodes(text));
  }
  for (const std::string& node : options.remove) {
    request.add_node_changes()->set_remove(NodeResource(node));
  }
  for (const std::string& node : options.cordon) {
    request.add_node_changes()->set_cordon(NodeResource(node));
  }
  for (const std::string& node : options.uncordon) {
    request.add_node_changes()->set_uncordon(NodeResource(node));
  }
  CAPSTAN_ASSIGN_OR_RETURN(const auto connection, Connect<JobService>(invocation, "scheduler"));
  const absl::StatusOr<SimulatePlacementResponse> response =
      Call(connection.stub.get(), &JobService::Stub::SimulatePlacement, request, Terms(invocation));
  if (!response.ok()) return Located(response.status(), submissions);
  if (invocation.output.format == OutputFormat::kName) {
    for (const auto& job : response->jobs()) *invocation.out << job.reason() << "\n";
    return absl::OkStatus();
  }
  return PrintResource<SimulatePlacementResponse>(
      invocation, *response, [&](const SimulatePlacementResponse& shown) {
        return DescribeSimulation(shown, names, request.node_changes_size() > 0,
                                  invocation.clock->Read().wall, invocation.out_terminal);
      });
}

}  // namespace capstan::cli
