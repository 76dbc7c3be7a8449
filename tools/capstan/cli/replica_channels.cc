#include "tools/capstan/cli/replica_channels.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/identity.h"
#include "libs/status/status_macros.h"

namespace capstan::cli {

absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> ReplicaChannels(
    Platform& platform, absl::string_view service, const Clock* clock) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, platform.Replicas(service));
  CAPSTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const rpc::Identity> identity,
                           platform.Identity());
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (const std::string& address : addresses) {
    channels.push_back(rpc::Dial(address, identity, clock, absl::StrCat("/svc/", service)));
  }
  return channels;
}

}  // namespace capstan::cli
