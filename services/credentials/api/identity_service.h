#ifndef CAPSTAN_SERVICES_CREDENTIALS_API_IDENTITY_SERVICE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_API_IDENTITY_SERVICE_H_

#include <utility>

#include "libs/auth/access.h"
#include "proto/capstan/credentials/v1/join_service.grpc.pb.h"
#include "services/credentials/ports/event_sink.h"
#include "services/credentials/ports/secret_source.h"

namespace capstan::credentials {

// Renews and issues SVIDs over mTLS.
class IdentityServiceHandlers final : public v1::IdentityService::CallbackService {
 public:
  // All pointers must outlive it.
  IdentityServiceHandlers(EventSink* sink, SecretSource* secrets, auth::Access* access,
                          v1::TrustBundle bundle)
      : sink_(sink), secrets_(secrets), access_(access), bundle_(std::move(bundle)) {}

  grpc::ServerUnaryReactor* RenewSvid(grpc::CallbackServerContext* context,
                                      const v1::RenewSvidRequest* request,
                                      v1::Svid* response) override;
  grpc::ServerUnaryReactor* IssueTaskSvid(grpc::CallbackServerContext* context,
                                          const v1::IssueTaskSvidRequest* request,
                                          v1::Svid* response) override;
  grpc::ServerUnaryReactor* GetTrustBundle(grpc::CallbackServerContext* context,
                                           const v1::GetTrustBundleRequest* request,
                                           v1::TrustBundle* response) override;

 private:
  EventSink* const sink_;
  SecretSource* const secrets_;
  auth::Access* const access_;
  const v1::TrustBundle bundle_;
};

// Gives one person SVIDs: there is one such service for each uid, on connections that the kernel
// has said to be that uid's, so that no call can be taken for another person's.
class PersonServiceHandlers final : public v1::PersonService::CallbackService {
 public:
  PersonServiceHandlers(EventSink* sink, SecretSource* secrets, auth::Access* access,
                        int64_t unix_uid)
      : sink_(sink), secrets_(secrets), access_(access), unix_uid_(unix_uid) {}

  grpc::ServerUnaryReactor* IssuePersonSvid(grpc::CallbackServerContext* context,
                                            const v1::IssuePersonSvidRequest* request,
                                            v1::Svid* response) override;

 private:
  EventSink* const sink_;
  SecretSource* const secrets_;
  auth::Access* const access_;
  const int64_t unix_uid_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_API_IDENTITY_SERVICE_H_
