#include "libs/auth/join.h"

#include <unistd.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "libs/auth/svid_renewer.h"
#include "libs/rpc/call.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/status_conversion.h"
#include "libs/rpc/x509.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/credentials/v1/join_service.grpc.pb.h"

namespace capstan::auth {

absl::StatusOr<std::shared_ptr<rpc::Identity>> Join(const JoinToken& token,
                                                    const std::string& address,
                                                    const std::string& folder, const Clock* clock,
                                                    absl::Duration deadline) {
  CAPSTAN_ASSIGN_OR_RETURN(const rpc::PrivateKey key, rpc::PrivateKey::Generate());
  credentials::v1::JoinRequest request;
  request.set_token(token.text);
  CAPSTAN_ASSIGN_OR_RETURN(*request.mutable_certificate_request(),
                           rpc::MakeCertificateRequest(key));
  const auto stub = credentials::v1::JoinService::NewStub(
      rpc::Dial(address, rpc::JoinChannelCredentials(token.bundle_sha256, clock)));
  const BootTime end = clock->Read().boot + deadline;
  absl::Status status;
  credentials::v1::JoinResponse response;
  do {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    rpc::SetDeadline(context, end - clock->Read().boot);
    status = rpc::FromGrpcStatus(stub->Join(&context, request, &response));
  } while (absl::IsUnavailable(status) && clock->Read().boot < end);
  if (!status.ok()) return status::Annotate(status, absl::StrCat("joining at ", address));
  return rpc::Identity::Store(folder, MakeSvid(key, response.svid()));
}

absl::StatusOr<std::shared_ptr<rpc::Identity>> ObtainIdentity(const ObtainOptions& options,
                                                              const Clock* clock) {
  absl::StatusOr<std::shared_ptr<rpc::Identity>> kept = rpc::Identity::Load(options.folder);
  if (kept.ok() && (*kept)->Get()->not_after > clock->Read().wall) {
    if (options.token_fd >= 0) close(options.token_fd);
    return kept;
  }
  if (options.token_fd < 0) {
    return status::Error(
        absl::StatusCode::kUnauthenticated, "NO_IDENTITY",
        absl::StrCat("no valid identity in ", options.folder, ", and no join token was given: ",
                     kept.ok() ? "it has expired" : kept.status().message()),
        {{"folder", options.folder}});
  }
  CAPSTAN_ASSIGN_OR_RETURN(const JoinToken token, ReadJoinToken(options.token_fd));
  return Join(token, options.join_address, options.folder, clock, options.deadline);
}

}  // namespace capstan::auth
