#ifndef CAPSTAN_SERVICES_SCHEDULER_API_EXECUTOR_SESSION_SERVICE_H_
#define CAPSTAN_SERVICES_SCHEDULER_API_EXECUTOR_SESSION_SERVICE_H_

#include "proto/capstan/scheduler/v1/executor_session.grpc.pb.h"
#include "services/scheduler/api/api_deps.h"

namespace capstan::scheduler {

// Joins executors' streams to the engine. The Cluster is that of the caller's certificate.
class ExecutorSessionService final
    : public capstan::scheduler::v1::ExecutorSession::CallbackService {
 public:
  explicit ExecutorSessionService(const ApiDeps& deps) : deps_(deps) {}

  grpc::ServerBidiReactor<capstan::type::v1::SessionUp, capstan::type::v1::SessionDown>* Connect(
      grpc::CallbackServerContext* context) override;

 private:
  const ApiDeps deps_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_API_EXECUTOR_SESSION_SERVICE_H_
