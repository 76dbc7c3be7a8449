#include "tools/capstan/cli/platform.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/config/proto_reader.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/replicas.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "tools/capstan/cli/person_identity.h"

namespace capstan::cli {

std::string DefaultDataDir(const char* capstan_data_dir, const char* xdg_state_home,
                           const char* home) {
  const auto is_set = [](const char* value) { return value != nullptr && value[0] != '\0'; };
  if (is_set(capstan_data_dir)) return capstan_data_dir;
  if (is_set(xdg_state_home)) return absl::StrCat(xdg_state_home, "/capstan/dev");
  return absl::StrCat(is_set(home) ? home : "", "/.local/state/capstan/dev");
}

absl::StatusOr<v1::Endpoints> ReadEndpoints(const std::string& data_dir) {
  v1::Endpoints endpoints;
  const absl::Status read =
      config::ReadProtoFile(absl::StrCat(data_dir, "/endpoints.json"), &endpoints);
  if (read.code() == absl::StatusCode::kNotFound) {
    return status::Error(absl::StatusCode::kUnavailable, "NO_PLATFORM",
                         absl::StrCat("there is no platform in ", data_dir,
                                      "; start one with `capstan dev up`, or name its folder with "
                                      "--data-dir or CAPSTAN_DATA_DIR"),
                         {{"data_dir", data_dir}});
  }
  if (!read.ok()) return read;
  return endpoints;
}

absl::StatusOr<std::unique_ptr<Platform>> Platform::Open(const Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(v1::Endpoints endpoints, ReadEndpoints(invocation.data_dir));
  return std::unique_ptr<Platform>(new Platform(invocation, std::move(endpoints)));
}

absl::StatusOr<std::shared_ptr<const rpc::Identity>> Platform::Identity() {
  if (identity_ == nullptr) {
    CAPSTAN_ASSIGN_OR_RETURN(identity_,
                             GetPersonIdentity(PersonFolder(data_dir_), endpoints_.person_socket(),
                                               endpoints_.trust_domain(), clock_, random_));
  }
  return identity_;
}

absl::StatusOr<std::vector<std::string>> Platform::Replicas(absl::string_view service) const {
  std::vector<std::string> addresses;
  for (const auto& [name, replica] : endpoints_.parts()) {
    const bool is_one = name == service || absl::StartsWith(name, absl::StrCat(service, "-"));
    if (is_one && !replica.address().empty()) addresses.push_back(replica.address());
  }
  if (addresses.empty()) {
    return status::Error(absl::StatusCode::kUnavailable, "NO_SUCH_PART",
                         absl::StrCat("the platform runs no ", service),
                         {{"service", std::string(service)}});
  }
  // The map has no order.
  std::sort(addresses.begin(), addresses.end());
  return addresses;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Platform::Channel(absl::string_view service) {
  std::shared_ptr<grpc::Channel>& channel = channels_[std::string(service)];
  if (channel != nullptr) return channel;
  CAPSTAN_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, Replicas(service));
  CAPSTAN_ASSIGN_OR_RETURN(std::shared_ptr<const rpc::Identity> identity, Identity());
  CAPSTAN_ASSIGN_OR_RETURN(const std::string target, rpc::ReplicaTarget(addresses));
  channel = rpc::DialLeader(
      target, rpc::MutualTlsChannelCredentials(identity, clock_, absl::StrCat("/svc/", service)));
  return channel;
}

}  // namespace capstan::cli
