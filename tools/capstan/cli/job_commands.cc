#include "tools/capstan/cli/job_commands.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/human_format.h"
#include "tools/capstan/cli/job_follow.h"
#include "tools/capstan/cli/job_text.h"
#include "tools/capstan/cli/names.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/cli/printer.h"

namespace capstan::cli {
namespace {

using scheduler::v1::CancelJobRequest;
using scheduler::v1::ExplainJobRequest;
using scheduler::v1::GetJobRequest;
using scheduler::v1::Job;
using scheduler::v1::JobService;
using scheduler::v1::ListJobsRequest;

// A stub and what it needs to live.
struct Jobs {
  std::unique_ptr<Platform> platform;
  std::unique_ptr<JobService::Stub> stub;
};

absl::StatusOr<Jobs> Connect(const Invocation& invocation) {
  Jobs jobs;
  CAPSTAN_ASSIGN_OR_RETURN(jobs.platform, Platform::Open(invocation.data_dir, invocation.clock));
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, jobs.platform->Channel("scheduler"));
  jobs.stub = JobService::NewStub(channel);
  return jobs;
}

std::string TimeOfDay(absl::Time time) {
  return absl::FormatTime("%H:%M:%S", time, absl::LocalTimeZone());
}

std::string Filter(const ListJobsOptions& options) {
  std::vector<std::string> terms;
  if (!options.state.empty()) {
    terms.push_back(absl::StrCat("state=", absl::AsciiStrToUpper(options.state)));
  }
  if (!options.queue.empty()) {
    terms.push_back(absl::StrCat("queue=queues/", LastSegment(options.queue)));
  }
  return absl::StrJoin(terms, " AND ");
}

bool Matches(const ListJobsOptions& options, const Job& job) {
  return (options.state.empty() || ShortEnum(Job::State_Name(job.state()), "STATE_") ==
                                       absl::AsciiStrToUpper(options.state)) &&
         (options.queue.empty() || LastSegment(job.spec().queue()) == LastSegment(options.queue));
}

// One line, or one document, for each change.
void PrintChange(const Invocation& invocation, const Job& job) {
  PrintResource<Job>(invocation, job, [&](const Job& changed) {
    const absl::Time now = invocation.clock->Read().wall;
    return absl::StrCat(TimeOfDay(now), " ", changed.name(), " ",
                        JobLine(changed, now, invocation.out_terminal), "\n");
  });
  invocation.out->flush();
}

}  // namespace

absl::Status ListJobs(const ListJobsOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const Jobs jobs, Connect(invocation));
  if (options.watch) {
    const auto on_job = [&](const Job& job) {
      if (Matches(options, job)) PrintChange(invocation, job);
      return true;
    };
    const auto on_deleted = [&](const std::string& name) {
      if (invocation.format == OutputFormat::kTable) {
        *invocation.out << TimeOfDay(invocation.clock->Read().wall) << " " << name << " DELETED"
                        << std::endl;
      }
      return true;
    };
    return FollowJobs(*jobs.platform, ProjectParent(invocation.project), on_job, on_deleted);
  }
  ListJobsRequest request;
  request.set_parent(ProjectParent(invocation.project));
  request.set_filter(Filter(options));
  std::vector<Job> all;
  do {
    CAPSTAN_ASSIGN_OR_RETURN(auto page, Call(jobs.stub.get(), &JobService::Stub::ListJobs, request,
                                             invocation.clock, invocation.time_out));
    for (Job& job : *page.mutable_jobs()) all.push_back(std::move(job));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  PrintList<Job>(invocation, "jobs", all, JobColumns(invocation.clock->Read().wall));
  return absl::OkStatus();
}

absl::Status GetJob(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const Jobs jobs, Connect(invocation));
  GetJobRequest request;
  request.set_name(InProject(invocation.project, "jobs", name));
  CAPSTAN_ASSIGN_OR_RETURN(const Job job, Call(jobs.stub.get(), &JobService::Stub::GetJob, request,
                                               invocation.clock, invocation.time_out));
  PrintResource<Job>(invocation, job, [&](const Job& shown) {
    return DescribeJob(shown, invocation.clock->Read().wall, invocation.out_terminal);
  });
  return absl::OkStatus();
}

absl::Status WatchJob(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const Jobs jobs, Connect(invocation));
  Job last;
  std::string last_line;
  const auto on_job = [&](const Job& job) {
    last = job;
    const std::string line = JobLine(job, invocation.clock->Read().wall, Terminal());
    if (line != last_line || invocation.format != OutputFormat::kTable) {
      PrintChange(invocation, job);
      last_line = line;
    }
    return !IsFinal(job.state());
  };
  CAPSTAN_RETURN_IF_ERROR(
      FollowJob(*jobs.platform, InProject(invocation.project, "jobs", name), on_job));
  if (last.state() == Job::STATE_SUCCEEDED) return absl::OkStatus();
  return Failed(
      absl::StrCat(last.name(), " ended as ", ShortEnum(Job::State_Name(last.state()), "STATE_")));
}

absl::Status ExplainJob(const std::string& name, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const Jobs jobs, Connect(invocation));
  ExplainJobRequest request;
  request.set_name(InProject(invocation.project, "jobs", name));
  CAPSTAN_ASSIGN_OR_RETURN(const auto explanation,
                           Call(jobs.stub.get(), &JobService::Stub::ExplainJob, request,
                                invocation.clock, invocation.time_out));
  switch (invocation.format) {
    case OutputFormat::kJson:
      *invocation.out << ToJson(explanation);
      break;
    case OutputFormat::kYaml:
      *invocation.out << ToYaml(explanation);
      break;
    case OutputFormat::kName:
      *invocation.out << explanation.reason() << "\n";
      break;
    case OutputFormat::kTable:
      *invocation.out << DescribeExplanation(explanation, invocation.out_terminal);
  }
  return absl::OkStatus();
}

absl::Status CancelJob(const CancelOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const Jobs jobs, Connect(invocation));
  CancelJobRequest request;
  request.set_name(InProject(invocation.project, "jobs", options.name));
  CAPSTAN_ASSIGN_OR_RETURN(Job job, Call(jobs.stub.get(), &JobService::Stub::CancelJob, request,
                                         invocation.clock, invocation.time_out));
  if (options.wait && !IsFinal(job.state())) {
    CAPSTAN_RETURN_IF_ERROR(FollowJob(*jobs.platform, request.name(), [&](const Job& now) {
      job = now;
      return !IsFinal(now.state());
    }));
  }
  PrintResource<Job>(invocation, job, [](const Job& shown) {
    return absl::StrCat(shown.name(), " ", ShortEnum(Job::State_Name(shown.state()), "STATE_"),
                        "\n");
  });
  return absl::OkStatus();
}

}  // namespace capstan::cli
