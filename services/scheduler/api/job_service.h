#ifndef CAPSTAN_SERVICES_SCHEDULER_API_JOB_SERVICE_H_
#define CAPSTAN_SERVICES_SCHEDULER_API_JOB_SERVICE_H_

#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "proto/capstan/scheduler/v1/job_service.grpc.pb.h"
#include "services/scheduler/api/api_deps.h"
#include "services/scheduler/core/core_config.h"

namespace capstan::scheduler {

class JobService final : public capstan::scheduler::v1::JobService::CallbackService {
 public:
  // `incarnation` of the store, for resume tokens.
  JobService(const ApiDeps& deps, const CoreConfig& config, int64_t incarnation)
      : deps_(deps), config_(config), incarnation_(incarnation) {}

  grpc::ServerUnaryReactor* CreateJob(grpc::CallbackServerContext* context,
                                      const capstan::scheduler::v1::CreateJobRequest* request,
                                      capstan::scheduler::v1::Job* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const capstan::scheduler::v1::GetJobRequest* request,
                                   capstan::scheduler::v1::Job* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const capstan::scheduler::v1::ListJobsRequest* request,
                                     capstan::scheduler::v1::ListJobsResponse* response) override;
  grpc::ServerWriteReactor<capstan::scheduler::v1::WatchJobsResponse>* WatchJobs(
      grpc::CallbackServerContext* context,
      const capstan::scheduler::v1::WatchJobsRequest* request) override;
  grpc::ServerUnaryReactor* UpdateJob(grpc::CallbackServerContext* context,
                                      const capstan::scheduler::v1::UpdateJobRequest* request,
                                      capstan::scheduler::v1::Job* response) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const capstan::scheduler::v1::CancelJobRequest* request,
                                      capstan::scheduler::v1::Job* response) override;
  grpc::ServerUnaryReactor* ExplainJob(
      grpc::CallbackServerContext* context,
      const capstan::scheduler::v1::ExplainJobRequest* request,
      capstan::scheduler::v1::ExplainJobResponse* response) override;
  grpc::ServerUnaryReactor* SimulatePlacement(
      grpc::CallbackServerContext* context,
      const capstan::scheduler::v1::SimulatePlacementRequest* request,
      capstan::scheduler::v1::SimulatePlacementResponse* response) override;

 private:
  using JobAnswer = absl::AnyInvocable<void(absl::StatusOr<capstan::scheduler::v1::Job>)>;

  // To be called on the strand with what came of a change: what `caller` then simulates counts it.
  JobAnswer Tell(const std::string& caller, JobAnswer answer);

  const ApiDeps deps_;
  const CoreConfig config_;
  const int64_t incarnation_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_API_JOB_SERVICE_H_
