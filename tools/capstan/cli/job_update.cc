// Jobs that are changed, held and released.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/resource/quantity.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/connection.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/job_commands.h"
#include "tools/capstan/cli/job_text.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/printer.h"

namespace capstan::cli {
namespace {

using scheduler::v1::Job;
using scheduler::v1::JobService;
using scheduler::v1::UpdateJobRequest;

}  // namespace

absl::Status UpdateJob(const UpdateJobOptions& options, Invocation& invocation) {
  UpdateJobRequest request;
  Job& wanted = *request.mutable_job();
  auto& paths = *request.mutable_update_mask();
  if (options.priority.has_value()) {
    wanted.mutable_spec()->set_priority(*options.priority);
    paths.add_paths("spec.priority");
  }
  if (!options.time_limit.empty()) {
    if (options.time_limit != kNoTimeLimit) {
      CAPSTAN_ASSIGN_OR_RETURN(const absl::Duration limit,
                               resource::ParseDuration(options.time_limit));
      *wanted.mutable_spec()->mutable_time_limit() = ToProto(limit);
    }
    paths.add_paths("spec.time_limit");
  }
  if (paths.paths().empty()) {
    return status::Error(absl::StatusCode::kInvalidArgument, "NOTHING_TO_CHANGE",
                         "expected at least one of the options, e.g. --priority 5");
  }
  CAPSTAN_ASSIGN_OR_RETURN(const auto jobs, Connect<JobService>(invocation, "scheduler"));
  wanted.set_name(InProject(invocation.project, "jobs", options.name));
  request.set_validate_only(options.dry_run);
  CAPSTAN_ASSIGN_OR_RETURN(const Job job, Call(jobs.stub.get(), &JobService::Stub::UpdateJob,
                                               request, Terms(invocation)));
  return PrintResource<Job>(invocation, job, [&](const Job& shown) {
    return absl::StrCat(shown.name(), options.dry_run ? " could be changed so\n" : " changed\n");
  });
}

absl::Status HoldJobs(const std::vector<std::string>& names, bool hold, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto jobs, Connect<JobService>(invocation, "scheduler"));
  std::vector<Job> changed;
  absl::Status status;
  for (const std::string& name : names) {
    UpdateJobRequest request;
    request.mutable_job()->set_name(InProject(invocation.project, "jobs", name));
    request.mutable_job()->set_hold(hold);
    request.mutable_update_mask()->add_paths("hold");
    auto job = Call(jobs.stub.get(), &JobService::Stub::UpdateJob, request, Terms(invocation));
    status = job.status();
    if (!status.ok()) break;
    changed.push_back(*std::move(job));
  }
  // What is done is told, whatever came after it.
  if (changed.empty()) return status;
  if (invocation.output.format == OutputFormat::kTable) {
    for (const Job& job : changed) {
      *invocation.out << job.name() << (hold ? " held, " : " released, ")
                      << ShortEnum(Job::State_Name(job.state()), "STATE_") << "\n";
    }
    return status;
  }
  const absl::Status printed =
      names.size() == 1
          ? PrintMessage(invocation, changed[0])
          : PrintList<Job>(invocation, "jobs", changed, JobColumns(invocation.clock->Read().wall));
  return status.ok() ? printed : status;
}

}  // namespace capstan::cli
