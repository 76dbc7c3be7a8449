#ifndef CAPSTAN_SERVICES_CREDENTIALS_API_AUDIT_SERVICE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_API_AUDIT_SERVICE_H_

#include "libs/auth/access.h"
#include "libs/store/store.h"
#include "proto/capstan/credentials/v1/audit_service.grpc.pb.h"

namespace capstan::credentials {

// Shows the chain as stored. It verifies nothing: whoever reads it does.
class AuditServiceHandlers final : public v1::AuditService::CallbackService {
 public:
  // Both must outlive it.
  AuditServiceHandlers(store::Store* store, auth::Access* access)
      : store_(store), access_(access) {}

  grpc::ServerUnaryReactor* ListAuditRecords(grpc::CallbackServerContext* context,
                                             const v1::ListAuditRecordsRequest* request,
                                             v1::ListAuditRecordsResponse* response) override;
  grpc::ServerUnaryReactor* GetAuditHead(grpc::CallbackServerContext* context,
                                         const v1::GetAuditHeadRequest* request,
                                         v1::AuditHead* response) override;

 private:
  store::Store* const store_;
  auth::Access* const access_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_API_AUDIT_SERVICE_H_
