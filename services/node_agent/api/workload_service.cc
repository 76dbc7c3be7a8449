#include "services/node_agent/api/workload_service.h"

#include <iterator>
#include <memory>
#include <string>

#include "libs/rpc/server_stream.h"
#include "libs/rpc/unary.h"
#include "libs/status/error.h"

namespace capstan::node_agent {
namespace {

// A stream of gRPC's.
template <typename Message>
class RpcStream final : public WorkloadStream<Message> {
 public:
  explicit RpcStream(std::shared_ptr<rpc::ServerStreamWriter<Message>> writer)
      : writer_(std::move(writer)) {}
  // A stream that nobody keeps, as when the strand has stopped, is over.
  ~RpcStream() override { writer_->Finish(absl::UnavailableError("The Node agent stops.")); }

  absl::Status Write(Message message) override { return writer_->Write(std::move(message)); }
  void Finish(const absl::Status& status) override { writer_->Finish(status); }

 private:
  const std::shared_ptr<rpc::ServerStreamWriter<Message>> writer_;
};

}  // namespace

absl::StatusOr<auth::Caller> AttestedAccess::Authorize(const auth::Peer&, absl::string_view method,
                                                       const google::protobuf::Message*) {
  auth::Caller caller;
  caller.method = std::string(method);
  return caller;
}

absl::Status AttestedAccess::Recheck(const auth::Caller&) { return absl::OkStatus(); }

absl::Status WorkloadService::Check(const grpc::CallbackServerContext& context) const {
  const auto [first, last] = context.client_metadata().equal_range("workload.spiffe.io");
  if (first == last || std::next(first) != last || first->second != "true") {
    return status::Error(absl::StatusCode::kInvalidArgument, "NO_SECURITY_HEADER",
                         "expected the metadata `workload.spiffe.io: true`, once");
  }
  return task_.has_value() ? absl::OkStatus() : WorkloadIdentities::NoIdentity();
}

template <typename Response, typename Request, typename Open>
grpc::ServerWriteReactor<Response>* WorkloadService::Stream(grpc::CallbackServerContext* context,
                                                            absl::string_view method,
                                                            const Request* request, Open open) {
  return rpc::HandleServerStream<Response>(
      context, &access_, method, request,
      [this, context](const Request&) { return Check(*context); },
      [this, open](std::shared_ptr<rpc::ServerStreamWriter<Response>> writer, const Request&) {
        strand_->Post([stream = std::make_shared<RpcStream<Response>>(std::move(writer)),
                       identities = identities_, task = *task_,
                       open] { (identities->*open)(task, stream); });
      });
}

grpc::ServerWriteReactor<::X509SVIDResponse>* WorkloadService::FetchX509SVID(
    grpc::CallbackServerContext* context, const ::X509SVIDRequest* request) {
  return Stream<::X509SVIDResponse>(context, "/SpiffeWorkloadAPI/FetchX509SVID", request,
                                    &WorkloadIdentities::FetchX509Svid);
}

grpc::ServerWriteReactor<::X509BundlesResponse>* WorkloadService::FetchX509Bundles(
    grpc::CallbackServerContext* context, const ::X509BundlesRequest* request) {
  return Stream<::X509BundlesResponse>(context, "/SpiffeWorkloadAPI/FetchX509Bundles", request,
                                       &WorkloadIdentities::FetchX509Bundles);
}

grpc::ServerWriteReactor<::JWTBundlesResponse>* WorkloadService::FetchJWTBundles(
    grpc::CallbackServerContext* context, const ::JWTBundlesRequest* request) {
  return Stream<::JWTBundlesResponse>(context, "/SpiffeWorkloadAPI/FetchJWTBundles", request,
                                      &WorkloadIdentities::FetchJwtBundles);
}

grpc::ServerUnaryReactor* WorkloadService::FetchJWTSVID(grpc::CallbackServerContext* context,
                                                        const ::JWTSVIDRequest* request,
                                                        ::JWTSVIDResponse* response) {
  return rpc::HandleUnary(
      context, &access_, "/SpiffeWorkloadAPI/FetchJWTSVID", request, response,
      [this, context](const ::JWTSVIDRequest&) { return Check(*context); },
      [this](const rpc::Call&, const ::JWTSVIDRequest& request, ::JWTSVIDResponse* response,
             rpc::Finish finish) {
        strand_->Post([identities = identities_, task = *task_, request,
                       done = rpc::RespondWith(response, std::move(finish))]() mutable {
          identities->FetchJwtSvid(task, request, std::move(done));
        });
      });
}

grpc::ServerUnaryReactor* WorkloadService::ValidateJWTSVID(grpc::CallbackServerContext* context,
                                                           const ::ValidateJWTSVIDRequest* request,
                                                           ::ValidateJWTSVIDResponse* response) {
  return rpc::HandleUnary(
      context, &access_, "/SpiffeWorkloadAPI/ValidateJWTSVID", request, response,
      [this, context](const ::ValidateJWTSVIDRequest& request) {
        absl::Status status = Check(*context);
        if (status.ok() && (request.audience().empty() || request.svid().empty())) {
          status = absl::InvalidArgumentError("audience and svid are required");
        }
        return status;
      },
      [this](const rpc::Call&, const ::ValidateJWTSVIDRequest& request,
             ::ValidateJWTSVIDResponse* response, rpc::Finish finish) {
        strand_->Post([identities = identities_, task = *task_, request,
                       done = rpc::RespondWith(response, std::move(finish))]() mutable {
          done(identities->ValidateJwtSvid(task, request));
        });
      });
}

}  // namespace capstan::node_agent
