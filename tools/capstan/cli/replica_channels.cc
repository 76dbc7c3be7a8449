#include "tools/capstan/cli/replica_channels.h"

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/identity.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::cli {

absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> ReplicaChannels(
    Platform& platform, absl::string_view service, const Clock* clock) {
  std::set<std::string> addresses;
  for (const auto& [name, part] : platform.endpoints().parts()) {
    const bool is_replica = name == service || absl::StartsWith(name, absl::StrCat(service, "-"));
    if (is_replica && !part.address().empty()) addresses.insert(part.address());
  }
  if (addresses.empty()) {
    return status::Error(absl::StatusCode::kUnavailable, "NO_SUCH_PART",
                         absl::StrCat("the platform runs no ", service),
                         {{"service", std::string(service)}});
  }
  CAPSTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const rpc::Identity> identity,
                           platform.Identity());
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (const std::string& address : addresses) {
    channels.push_back(rpc::Dial(address, identity, clock, absl::StrCat("/svc/", service)));
  }
  return channels;
}

}  // namespace capstan::cli
