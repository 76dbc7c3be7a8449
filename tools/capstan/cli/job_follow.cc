#include "tools/capstan/cli/job_follow.h"

#include <memory>
#include <utility>

#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "proto/capstan/telemetry/v1/stream.grpc.pb.h"
#include "tools/capstan/cli/follow_stream.h"

namespace capstan::cli {
namespace {

using scheduler::v1::Job;
using scheduler::v1::JobService;
using scheduler::v1::WatchJobsRequest;
using scheduler::v1::WatchJobsResponse;
using telemetry::v1::ReadRecordsRequest;
using telemetry::v1::ReadRecordsResponse;
using telemetry::v1::Record;
using telemetry::v1::StreamService;

// `on_deleted` and `on_synced` return whether to go on.
absl::Status Watch(CommandLoop* loop, Platform* platform, WatchJobsRequest request,
                   std::function<bool(const Job&)> on_job,
                   std::function<bool(const std::string&)> on_deleted,
                   std::function<bool()> on_synced, OnOver on_over) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform->Channel("scheduler"));
  FollowCallbacks<WatchJobsRequest, WatchJobsResponse> callbacks;
  callbacks.on_message = [on_job = std::move(on_job), on_deleted = std::move(on_deleted),
                          on_synced = std::move(on_synced)](const WatchJobsResponse& response,
                                                            WatchJobsRequest* again) {
    if (!response.resume_token().empty()) again->set_resume_token(response.resume_token());
    if (response.has_job()) return on_job(response.job());
    if (response.event_case() == WatchJobsResponse::kDeleted) return on_deleted(response.deleted());
    return response.event_case() != WatchJobsResponse::kSynced || on_synced();
  };
  callbacks.on_over = std::move(on_over);
  // A token that the server no longer honours: begin again with a snapshot.
  callbacks.mend = [](const absl::Status& status, WatchJobsRequest* again) {
    again->clear_resume_token();
    return absl::IsOutOfRange(status);
  };
  FollowStream(loop, std::shared_ptr<JobService::Stub>(JobService::NewStub(channel)),
               &JobService::StubInterface::async_interface::WatchJobs, std::move(request),
               std::move(callbacks));
  return absl::OkStatus();
}

}  // namespace

absl::Status FollowJob(CommandLoop* loop, Platform* platform, const std::string& job,
                       std::function<bool(const Job&)> on_job, const OnOver& on_over) {
  WatchJobsRequest request;
  request.set_parent(job.substr(0, job.find("/jobs/")));
  request.set_job(job);
  const auto on_deleted = [on_over](const std::string& name) {
    on_over(status::NotFound(name));
    return false;
  };
  const auto seen = std::make_shared<bool>(false);
  const auto on_state = [on_job = std::move(on_job), seen](const Job& now) {
    *seen = true;
    return on_job(now);
  };
  // A snapshot without the Job: it was never there.
  const auto on_synced = [on_deleted, seen, job] { return *seen || on_deleted(job); };
  return Watch(loop, platform, std::move(request), on_state, on_deleted, on_synced, on_over);
}

absl::Status FollowJobs(CommandLoop* loop, Platform* platform, const std::string& parent,
                        std::function<void(const Job&)> on_job,
                        std::function<void(const std::string&)> on_deleted, OnOver on_over) {
  WatchJobsRequest request;
  request.set_parent(parent);
  return Watch(
      loop, platform, std::move(request),
      [on_job = std::move(on_job)](const Job& job) {
        on_job(job);
        return true;
      },
      [on_deleted = std::move(on_deleted)](const std::string& name) {
        on_deleted(name);
        return true;
      },
      [] { return true; }, std::move(on_over));
}

absl::Status ReadStream(CommandLoop* loop, Platform* platform, const StreamQuery& query,
                        std::function<bool(const Record&)> on_record,
                        std::function<void()> on_caught_up, OnOver on_over) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform->Channel("telemetry"));
  ReadRecordsRequest request;
  request.set_stream(query.stream);
  request.set_tail(query.tail.value_or(0));
  request.set_follow(query.follow);
  request.mutable_attributes()->insert(query.attributes.begin(), query.attributes.end());
  FollowCallbacks<ReadRecordsRequest, ReadRecordsResponse> callbacks;
  callbacks.on_message = [on_record = std::move(on_record), on_caught_up = std::move(on_caught_up),
                          caught_up = false](const ReadRecordsResponse& response,
                                             ReadRecordsRequest* again) mutable {
    for (const Record& record : response.records()) {
      if (!on_record(record)) return false;
      again->set_start_offset(record.offset() + 1);
      again->clear_tail();
    }
    if (response.caught_up() && !std::exchange(caught_up, true)) on_caught_up();
    return true;
  };
  callbacks.on_over = std::move(on_over);
  callbacks.reopen_ended = query.follow;
  FollowStream(loop, std::shared_ptr<StreamService::Stub>(StreamService::NewStub(channel)),
               &StreamService::StubInterface::async_interface::ReadRecords, std::move(request),
               std::move(callbacks));
  return absl::OkStatus();
}

absl::Status WaitForJob(Platform* platform, const std::string& job, const Invocation& invocation,
                        std::function<bool(const Job&)> on_job) {
  CommandLoop loop(invocation.clock, invocation.random);
  return loop.Run([&] {
    const absl::Status begun = FollowJob(
        &loop, platform, job,
        [&](const Job& now) {
          const bool go_on = on_job(now);
          if (!go_on) loop.Done(absl::OkStatus());
          return go_on;
        },
        [&](const absl::Status& over) { loop.Done(over); });
    if (!begun.ok()) loop.Done(begun);
  });
}

}  // namespace capstan::cli
