#include "tools/capstan/cli/node_simulate.h"

#include <fcntl.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "libs/rpc/status_conversion.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/cli/v1/alternative_line.pb.h"
#include "proto/capstan/scheduler/v1/simulation_service.grpc.pb.h"
#include "tools/capstan/cli/alternative_text.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/changes_file.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/job_submit.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/cli/printer.h"
#include "tools/capstan/cli/replica_channels.h"

namespace capstan::cli {
namespace {

using scheduler::v1::SimulateChangesRequest;
using scheduler::v1::SimulateChangesResponse;
using scheduler::v1::SimulationService;

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr char kLeads[] = "LEADS";

absl::StatusOr<std::string> ReadText(const std::string& file) {
  if (file == "-") return ReadAll(STDIN_FILENO, kMaxFileBytes, "standard input");
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    const absl::Status why = ErrnoStatus(errno, "opening", file);
    return status::Error(why.code(), "FILE_NOT_READABLE", why.message(), {{"file", file}});
  }
  return ReadAll(fd.get(), kMaxFileBytes, file);
}

absl::StatusOr<Changes> ReadChanges(const std::string& file, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string text, ReadText(file));
  return ParseChangesFile(text, file == "-" ? "stdin" : file, invocation.project,
                          [&invocation](const std::string& job, const std::string& project) {
                            Invocation of_project = invocation;
                            of_project.project = project;
                            SubmitOptions submit;
                            submit.file = job;
                            return ReadSubmission(submit, of_project);
                          });
}

using Channels = std::vector<std::shared_ptr<grpc::Channel>>;
using Show = std::function<void(const SimulateChangesResponse&)>;

// Asks one after the other until one answers: that is heard to its end. Whether any has answered is
// said in `answered`. Of several refusals one that time alone does not mend is told first.
absl::Status AskEach(const Channels& channels, const SimulateChangesRequest& request,
                     const Show& show, bool* answered) {
  absl::Status refused = absl::UnavailableError("no scheduler is there");
  for (const auto& channel : channels) {
    grpc::ClientContext context;
    const auto stub = SimulationService::NewStub(channel);
    const auto reader = stub->SimulateChanges(&context, request);
    SimulateChangesResponse response;
    while (reader->Read(&response)) {
      *answered = true;
      show(response);
    }
    const absl::Status over = rpc::FromGrpcStatus(reader->Finish());
    if (over.ok() || *answered) return over;
    const bool another_may = status::Reason(over) == kLeads || absl::IsUnavailable(over) ||
                             absl::IsResourceExhausted(over);
    if (!another_may) return over;
    if (absl::IsUnavailable(refused) || absl::IsResourceExhausted(over)) refused = over;
  }
  return refused;
}

absl::Status Ask(const Channels& channels, SimulateChangesRequest request, bool on_leader,
                 const Invocation& invocation, const Show& show) {
  AttemptPause pause(Terms(invocation));
  bool answered = false;
  while (true) {
    absl::Status over = AskEach(channels, request, show, &answered);
    if (over.ok() || answered) return over;
    if (status::Reason(over) == kLeads) {
      if (!on_leader || request.allow_leader()) {
        return status::Error(
            over.code(), kLeads,
            "no scheduler follows, and the one that leads leaves batches of simulations to those "
            "that do; --on-leader asks it all the same");
      }
      request.set_allow_leader(true);
      continue;
    }
    if (!absl::IsUnavailable(over) || !pause.Wait()) return over;
  }
}

}  // namespace

absl::Status SimulateChanges(const SimulateChangesOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const Changes changes, ReadChanges(options.file, invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const Channels channels,
                           ReplicaChannels(*platform, "scheduler", invocation.clock));
  std::vector<std::string> names;
  for (const Changes::Alternative& alternative : changes.alternatives) {
    names.push_back(alternative.name);
  }
  const AlternativeText text(names);
  const bool for_people = invocation.output.format == OutputFormat::kTable;
  bool has_header = false;
  // What was refused, in terms of the files.
  std::string refused;
  const absl::Status over = Ask(
      channels, changes.request, options.on_leader, invocation,
      [&](const SimulateChangesResponse& response) {
        if (response.has_summary()) {
          if (!for_people) return;
          *invocation.out << text.Summary(response, invocation.clock->Read().wall) << std::flush;
          return;
        }
        const size_t index = static_cast<size_t>(response.answer().index());
        if (index >= changes.alternatives.size()) return;
        const Changes::Alternative& alternative = changes.alternatives[index];
        v1::AlternativeLine line;
        line.set_name(alternative.name);
        *line.mutable_state_time() = response.state_time();
        line.set_state_revision(response.state_revision());
        if (response.answer().has_error()) {
          *line.mutable_error() = response.answer().error();
          const absl::Status why = rpc::FromStatusProto(line.error());
          absl::StrAppend(&refused, refused.empty() ? "" : "\n",
                          LocateChanges(why, changes).message());
        } else {
          *line.mutable_response() = response.answer().response();
        }
        if (!for_people) {
          *invocation.out << RenderChange(invocation, line) << std::endl;
          return;
        }
        if (!std::exchange(has_header, true)) *invocation.out << text.Header();
        std::vector<std::string> jobs;
        for (const Submission& job : alternative.jobs) jobs.push_back(LastSegment(job.file));
        *invocation.out << text.Line(line, jobs) << std::flush;
      });
  if (!over.ok()) return LocateChanges(over, changes);
  if (refused.empty()) return absl::OkStatus();
  return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_FILE", refused,
                       {{"file", changes.file}});
}

}  // namespace capstan::cli
