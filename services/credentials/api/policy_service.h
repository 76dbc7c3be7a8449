#ifndef CAPSTAN_SERVICES_CREDENTIALS_API_POLICY_SERVICE_H_
#define CAPSTAN_SERVICES_CREDENTIALS_API_POLICY_SERVICE_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "libs/auth/access.h"
#include "libs/strand/strand.h"
#include "proto/capstan/credentials/v1/project.grpc.pb.h"
#include "services/credentials/api/policy_feed.h"
#include "services/credentials/ports/event_sink.h"

namespace capstan::credentials {

// Turns what DenyIdentity asks into what the deny list holds: a full id or prefix (a bare path is
// taken in `trust_domain`), or a serial without leading zeros. INVALID_ARGUMENT with violations.
absl::StatusOr<DenyIdentity> ParseDenial(const v1::DenyIdentityRequest& request,
                                         const std::string& trust_domain);

// Distributes the policy and the denials.
class PolicyServiceHandlers final : public v1::PolicyService::CallbackService {
 public:
  // All pointers must outlive it; `feed` is used on `strand`.
  PolicyServiceHandlers(EventSink* sink, Strand* strand, PolicyFeed* feed, auth::Access* access,
                        std::string trust_domain)
      : sink_(sink),
        strand_(strand),
        feed_(feed),
        access_(access),
        trust_domain_(std::move(trust_domain)) {}

  grpc::ServerWriteReactor<v1::PolicySnapshot>* WatchPolicy(
      grpc::CallbackServerContext* context, const v1::WatchPolicyRequest* request) override;
  grpc::ServerUnaryReactor* DenyIdentity(grpc::CallbackServerContext* context,
                                         const v1::DenyIdentityRequest* request,
                                         google::protobuf::Empty* response) override;

 private:
  EventSink* const sink_;
  Strand* const strand_;
  PolicyFeed* const feed_;
  auth::Access* const access_;
  const std::string trust_domain_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_API_POLICY_SERVICE_H_
