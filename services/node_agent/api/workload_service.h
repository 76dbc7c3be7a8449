#ifndef CAPSTAN_SERVICES_NODE_AGENT_API_WORKLOAD_SERVICE_H_
#define CAPSTAN_SERVICES_NODE_AGENT_API_WORKLOAD_SERVICE_H_

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/auth/access.h"
#include "libs/session/task_id.h"
#include "libs/strand/strand.h"
#include "proto/spiffe/workload/workload.grpc.pb.h"
#include "services/node_agent/workload_identities.h"

namespace capstan::node_agent {

// The connections that a WorkloadService serves were attested when they were made; there is nothing
// to decide for each call.
class AttestedAccess final : public auth::Access {
 public:
  absl::StatusOr<auth::Caller> Authorize(const auth::Peer& peer, absl::string_view method,
                                         const google::protobuf::Message* request) override;
  absl::Status Recheck(const auth::Caller& caller) override;
};

// The SPIFFE Workload API for one Task: there is one for each Task, on connections that are the
// Task's, so that no call can be taken for another's. Without a Task it refuses everything, for
// strangers.
class WorkloadService final : public ::SpiffeWorkloadAPI::CallbackService {
 public:
  // `identities` is used on the strand. Both must outlive it.
  WorkloadService(absl::optional<session::TaskId> task, WorkloadIdentities* identities,
                  Strand* strand)
      : task_(std::move(task)), identities_(identities), strand_(strand) {}

  grpc::ServerWriteReactor<::X509SVIDResponse>* FetchX509SVID(
      grpc::CallbackServerContext* context, const ::X509SVIDRequest* request) override;
  grpc::ServerWriteReactor<::X509BundlesResponse>* FetchX509Bundles(
      grpc::CallbackServerContext* context, const ::X509BundlesRequest* request) override;
  grpc::ServerUnaryReactor* FetchJWTSVID(grpc::CallbackServerContext* context,
                                         const ::JWTSVIDRequest* request,
                                         ::JWTSVIDResponse* response) override;
  grpc::ServerWriteReactor<::JWTBundlesResponse>* FetchJWTBundles(
      grpc::CallbackServerContext* context, const ::JWTBundlesRequest* request) override;
  grpc::ServerUnaryReactor* ValidateJWTSVID(grpc::CallbackServerContext* context,
                                            const ::ValidateJWTSVIDRequest* request,
                                            ::ValidateJWTSVIDResponse* response) override;

 private:
  // INVALID_ARGUMENT without the metadata that the standard asks for, exactly once;
  // PERMISSION_DENIED for strangers.
  absl::Status Check(const grpc::CallbackServerContext& context) const;
  template <typename Response, typename Request, typename Open>
  grpc::ServerWriteReactor<Response>* Stream(grpc::CallbackServerContext* context,
                                             absl::string_view method, const Request* request,
                                             Open open);

  const absl::optional<session::TaskId> task_;
  WorkloadIdentities* const identities_;
  Strand* const strand_;
  AttestedAccess access_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_API_WORKLOAD_SERVICE_H_
