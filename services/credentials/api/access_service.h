#ifndef CAPSTAN_SERVICES_CREDENTIALS_API_ACCESS_SERVICE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_API_ACCESS_SERVICE_H_

#include "libs/auth/access.h"
#include "libs/auth/policy.h"
#include "proto/capstan/credentials/v1/access_service.grpc.pb.h"

namespace capstan::credentials {

// Answers people about themselves, from the policy in force; reads no store.
class AccessServiceHandlers final : public v1::AccessService::CallbackService {
 public:
  // Both must outlive it.
  AccessServiceHandlers(auth::Access* access, const auth::PolicyHolder* policy)
      : access_(access), policy_(policy) {}

  grpc::ServerUnaryReactor* GetCallerAccess(grpc::CallbackServerContext* context,
                                            const v1::GetCallerAccessRequest* request,
                                            v1::CallerAccess* response) override;
  grpc::ServerUnaryReactor* TestPermissions(grpc::CallbackServerContext* context,
                                            const v1::TestPermissionsRequest* request,
                                            v1::TestPermissionsResponse* response) override;

 private:
  auth::Access* const access_;
  const auth::PolicyHolder* const policy_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_API_ACCESS_SERVICE_H_
