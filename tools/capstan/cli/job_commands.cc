#include "tools/capstan/cli/job_commands.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "tools/capstan/cli/archived_jobs.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/command_loop.h"
#include "tools/capstan/cli/connection.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/job_follow.h"
#include "tools/capstan/cli/job_show.h"
#include "tools/capstan/cli/job_text.h"
#include "tools/capstan/cli/list_all.h"
#include "tools/capstan/cli/log_line.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/cli/printer.h"

namespace capstan::cli {
namespace {

using scheduler::v1::CancelJobRequest;
using scheduler::v1::ExplainJobRequest;
using scheduler::v1::ExplainJobResponse;
using scheduler::v1::Job;
using scheduler::v1::JobService;
using scheduler::v1::ListJobsRequest;
using scheduler::v1::ListJobsResponse;

std::string TimeOfDay(absl::Time time) {
  return absl::FormatTime("%H:%M:%S", time, absl::LocalTimeZone());
}

std::string Filter(const ListJobsOptions& options, const Invocation& invocation) {
  std::vector<std::string> terms;
  if (!options.filter.empty()) terms.push_back(options.filter);
  if (!options.state.empty()) {
    terms.push_back(absl::StrCat("state=", absl::AsciiStrToUpper(options.state)));
  }
  if (!options.queue.empty()) {
    terms.push_back(absl::StrCat("queue=queues/", LastSegment(options.queue)));
  }
  if (!options.array.empty()) {
    terms.push_back(absl::StrCat("array=", InProject(invocation.project, "jobs", options.array)));
  }
  return absl::StrJoin(terms, " AND ");
}

bool Matches(const ListJobsOptions& options, const Job& job) {
  return (options.state.empty() || ShortEnum(Job::State_Name(job.state()), "STATE_") ==
                                       absl::AsciiStrToUpper(options.state)) &&
         (options.queue.empty() || LastSegment(job.spec().queue()) == LastSegment(options.queue)) &&
         (options.array.empty() ||
          LastSegment(job.element().array()) == LastSegment(options.array));
}

// One line, or one document, for each change.
void PrintChange(const Invocation& invocation, const Job& job) {
  const absl::Time now = invocation.clock->Read().wall;
  *invocation.out << (invocation.output.format == OutputFormat::kTable
                          ? absl::StrCat(TimeOfDay(now), " ", job.name(), " ",
                                         JobLine(job, now, invocation.out_terminal))
                          : RenderChange(invocation, job))
                  << std::endl;
}

absl::Status WatchJobs(const ListJobsOptions& options, Platform* platform, Invocation& invocation) {
  const auto on_job = [&](const Job& job) {
    if (Matches(options, job)) PrintChange(invocation, job);
  };
  const auto on_deleted = [&](const std::string& name) {
    if (invocation.output.format == OutputFormat::kTable) {
      *invocation.out << TimeOfDay(invocation.clock->Read().wall) << " " << name << " DELETED"
                      << std::endl;
    }
  };
  CommandLoop loop(invocation.clock, invocation.random);
  return loop.Run([&] {
    const auto on_over = [&](const absl::Status& over) { loop.Done(over); };
    const absl::Status begun =
        FollowJobs(&loop, platform, ProjectParent(invocation.project), on_job, on_deleted, on_over);
    if (!begun.ok()) loop.Done(begun);
  });
}

}  // namespace

absl::Status ListJobs(const ListJobsOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto jobs, Connect<JobService>(invocation, "scheduler"));
  if (options.watch) return WatchJobs(options, jobs.platform.get(), invocation);
  ListJobsRequest request;
  request.set_parent(ProjectParent(invocation.project));
  request.set_filter(Filter(options, invocation));
  // As many as there may be (proto/capstan/scheduler/v1/job_service.proto): a page costs a journey
  // there and back.
  request.set_page_size(1000);
  CAPSTAN_ASSIGN_OR_RETURN(auto all, ListAll(jobs.stub.get(), &JobService::Stub::ListJobs, request,
                                             &ListJobsResponse::mutable_jobs, Terms(invocation)));
  if (!options.since.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(const absl::Duration age, ParseAge(options.since));
    CAPSTAN_ASSIGN_OR_RETURN(
        all, WithArchivedJobs(std::move(all), request.filter(), invocation.clock->Read().wall - age,
                              jobs.platform.get(), invocation));
  }
  return PrintList<Job>(invocation, "jobs", all, JobColumns(invocation.clock->Read().wall));
}

absl::Status GetJob(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  CAPSTAN_ASSIGN_OR_RETURN(
      const Job job,
      FindJob(platform.get(), InProject(invocation.project, "jobs", name), invocation));
  return PrintResource<Job>(invocation, job, [&](const Job& shown) {
    return DescribeJob(shown, invocation.clock->Read().wall, invocation.out_terminal);
  });
}

absl::Status WatchJob(const std::string& name, bool with_log, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  ShowJobOptions options;
  if (invocation.output.format == OutputFormat::kTable) {
    options.before_job_line = [&] {
      return absl::StrCat(TimeOfDay(invocation.clock->Read().wall), " ");
    };
    options.job_line = [&](const Job& job) {
      return absl::StrCat(job.name(), " ",
                          JobLine(job, invocation.clock->Read().wall, invocation.out_terminal));
    };
    if (with_log) {
      options.log_line = [&](const telemetry::v1::Record& record) {
        return absl::StrCat("  ", FormatLogLine(record, LogLineStyle(), invocation.out_terminal));
      };
    }
  } else {
    options.data = false;
    options.job_line = [&](const Job& job) { return RenderChange(invocation, job); };
  }
  CAPSTAN_ASSIGN_OR_RETURN(
      const Job last,
      ShowJob(*platform, InProject(invocation.project, "jobs", name), options, invocation));
  if (last.state() == Job::STATE_SUCCEEDED) return absl::OkStatus();
  return Failed(absl::StrCat(last.name(), " ended as ",
                             ShortEnum(Job::State_Name(last.state()), "STATE_"),
                             "; see `capstan job get ", LastSegment(last.name()), "`"));
}

absl::Status ExplainJob(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto jobs, Connect<JobService>(invocation, "scheduler"));
  ExplainJobRequest request;
  request.set_name(InProject(invocation.project, "jobs", name));
  CAPSTAN_ASSIGN_OR_RETURN(
      const auto explanation,
      Call(jobs.stub.get(), &JobService::Stub::ExplainJob, request, Terms(invocation)));
  if (invocation.output.format == OutputFormat::kName) {
    *invocation.out << explanation.reason() << "\n";
    return absl::OkStatus();
  }
  return PrintResource<ExplainJobResponse>(
      invocation, explanation, [&](const ExplainJobResponse& shown) {
        return DescribeExplanation(shown, invocation.out_terminal);
      });
}

absl::Status CancelJob(const CancelOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto jobs, Connect<JobService>(invocation, "scheduler"));
  CancelJobRequest request;
  request.set_name(InProject(invocation.project, "jobs", options.name));
  CAPSTAN_ASSIGN_OR_RETURN(
      Job job, Call(jobs.stub.get(), &JobService::Stub::CancelJob, request, Terms(invocation)));
  if (options.wait && !IsFinal(job.state())) {
    CAPSTAN_RETURN_IF_ERROR(
        WaitForJob(jobs.platform.get(), request.name(), invocation, [&](const Job& now) {
          job = now;
          return !IsFinal(now.state());
        }));
  }
  return PrintResource<Job>(invocation, job, [](const Job& shown) {
    return absl::StrCat(shown.name(), " ", ShortEnum(Job::State_Name(shown.state()), "STATE_"),
                        "\n");
  });
}

}  // namespace capstan::cli
