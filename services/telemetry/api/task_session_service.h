#ifndef CAPSTAN_SERVICES_TELEMETRY_API_TASK_SESSION_SERVICE_H_
#define CAPSTAN_SERVICES_TELEMETRY_API_TASK_SESSION_SERVICE_H_

#include "libs/auth/access.h"
#include "libs/strand/strand.h"
#include "proto/capstan/telemetry/v1/task_session.grpc.pb.h"
#include "services/telemetry/session_relay.h"

namespace capstan::telemetry {

// capstan.telemetry.v1.TaskSessionService over the relay.
class TaskSessionServiceHandler final : public v1::TaskSessionService::CallbackService {
 public:
  // All must outlive it; `relay` is used on `strand` only.
  TaskSessionServiceHandler(auth::Access* access, SessionRelay* relay, Strand* strand)
      : access_(access), relay_(relay), strand_(strand) {}

  grpc::ServerUnaryReactor* OpenTaskSession(grpc::CallbackServerContext* context,
                                            const v1::OpenTaskSessionRequest* request,
                                            v1::TaskSession* response) override;
  grpc::ServerWriteReactor<v1::TaskSession>* WatchTaskSessions(
      grpc::CallbackServerContext* context, const v1::WatchTaskSessionsRequest* request) override;
  grpc::ServerBidiReactor<v1::TaskSessionFrame, v1::TaskSessionFrame>* AttachTaskSession(
      grpc::CallbackServerContext* context) override;

 private:
  auth::Access* const access_;
  SessionRelay* const relay_;
  Strand* const strand_;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_API_TASK_SESSION_SERVICE_H_
