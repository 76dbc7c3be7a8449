#include "tools/capstan/cli/job_follow.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "grpcpp/client_context.h"
#include "libs/rpc/status_conversion.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "proto/capstan/telemetry/v1/stream.grpc.pb.h"

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

// A platform that was silent for so long is not being restarted: it is down.
constexpr absl::Duration kGiveUp = absl::Minutes(1);

// Whether a stream that ended with `status` should be opened again.
bool IsTransient(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kAborted;
}

// Waits between attempts, and knows when to stop trying.
class Patience {
 public:
  explicit Patience(const Clock* clock) : clock_(clock) { Heard(); }
  void Heard() {
    heard_ = clock_->Read().boot;
    pause_ = absl::Milliseconds(100);
  }
  // False once the other side has been silent for too long.
  bool Wait() {
    if (clock_->Read().boot - heard_ > kGiveUp) return false;
    absl::SleepFor(pause_);
    pause_ = std::min(pause_ * 2, absl::Seconds(2));
    return true;
  }

 private:
  const Clock* const clock_;
  BootTime heard_;
  absl::Duration pause_;
};

absl::Status Watch(Platform& platform, WatchJobsRequest request,
                   const std::function<bool(const Job&)>& on_job,
                   const std::function<bool(const std::string&)>& on_deleted) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform.Channel("scheduler"));
  const auto stub = JobService::NewStub(channel);
  Patience patience(platform.clock());
  while (true) {
    grpc::ClientContext context;
    const auto reader = stub->WatchJobs(&context, request);
    WatchJobsResponse response;
    while (reader->Read(&response)) {
      patience.Heard();
      if (!response.resume_token().empty()) request.set_resume_token(response.resume_token());
      bool go_on = true;
      if (response.has_job()) go_on = on_job(response.job());
      if (response.event_case() == WatchJobsResponse::kDeleted) {
        go_on = on_deleted(response.deleted());
      }
      if (!go_on) {
        context.TryCancel();
        reader->Finish();
        return absl::OkStatus();
      }
    }
    absl::Status status = rpc::FromGrpcStatus(reader->Finish());
    // A token that the server no longer honours: begin again with a snapshot.
    if (status.code() == absl::StatusCode::kOutOfRange) request.clear_resume_token();
    if (!status.ok() && !IsTransient(status) && status.code() != absl::StatusCode::kOutOfRange) {
      return status;
    }
    if (!patience.Wait()) return status.ok() ? absl::UnavailableError("the watch ended") : status;
  }
}

}  // namespace

absl::Status FollowJob(Platform& platform, const std::string& job,
                       const std::function<bool(const Job&)>& on_job) {
  WatchJobsRequest request;
  request.set_parent(job.substr(0, job.find("/jobs/")));
  request.set_job(job);
  bool gone = false;
  CAPSTAN_RETURN_IF_ERROR(Watch(platform, std::move(request), on_job, [&](const std::string&) {
    gone = true;
    return false;
  }));
  return gone ? status::NotFound(job) : absl::OkStatus();
}

absl::Status FollowJobs(Platform& platform, const std::string& parent,
                        const std::function<bool(const Job&)>& on_job,
                        const std::function<bool(const std::string&)>& on_deleted) {
  WatchJobsRequest request;
  request.set_parent(parent);
  return Watch(platform, std::move(request), on_job, on_deleted);
}

struct ReadCancel::State {
  absl::Mutex mutex;
  grpc::ClientContext* context ABSL_GUARDED_BY(mutex) = nullptr;
  bool cancelled ABSL_GUARDED_BY(mutex) = false;

  // False if cancelled.
  bool Enter(grpc::ClientContext* now) {
    absl::MutexLock lock(&mutex);
    context = now;
    return !cancelled;
  }
};

ReadCancel::ReadCancel() : state_(std::make_unique<State>()) {}
ReadCancel::~ReadCancel() = default;

void ReadCancel::Cancel() {
  absl::MutexLock lock(&state_->mutex);
  state_->cancelled = true;
  if (state_->context != nullptr) state_->context->TryCancel();
}

absl::Status ReadStream(Platform& platform, const StreamQuery& query,
                        const std::function<bool(const Record&)>& on_record, ReadCancel* cancel) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform.Channel("telemetry"));
  const auto stub = StreamService::NewStub(channel);
  ReadRecordsRequest request;
  request.set_stream(query.stream);
  request.set_tail(query.tail.value_or(0));
  request.set_follow(query.follow);
  request.mutable_attributes()->insert(query.attributes.begin(), query.attributes.end());
  ReadCancel none;
  if (cancel == nullptr) cancel = &none;
  Patience patience(platform.clock());
  while (true) {
    grpc::ClientContext context;
    if (!cancel->state_->Enter(&context)) return absl::OkStatus();
    const auto reader = stub->ReadRecords(&context, request);
    ReadRecordsResponse response;
    bool go_on = true;
    while (go_on && reader->Read(&response)) {
      patience.Heard();
      for (const Record& record : response.records()) {
        if (!(go_on = on_record(record))) break;
        request.set_start_offset(record.offset() + 1);
        request.clear_tail();
      }
    }
    if (!go_on) context.TryCancel();
    const absl::Status status = rpc::FromGrpcStatus(reader->Finish());
    if (!cancel->state_->Enter(nullptr) || !go_on) return absl::OkStatus();
    if (status.ok() && !query.follow) return status;
    if (!status.ok() && !IsTransient(status)) return status;
    if (!patience.Wait()) return status;
  }
}

}  // namespace capstan::cli
