#include "libs/rpc/replicas.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "grpcpp/create_channel.h"
#include "libs/address/host_port.h"
#include "libs/rpc/callback_threads.h"
#include "libs/rpc/channel_settings.h"
#include "libs/rpc/credentials.h"
#include "libs/rpc/observation.h"
#include "libs/rpc/server.h"
#include "libs/status/error.h"

namespace capstan::rpc {
namespace {

using address::HostPort;

constexpr size_t kMaxReplicas = 16;
// Of a leader that is cut off: the others cannot take its place in the channel before the
// connection counts as dead. The servers' own bound for pings is 10 s.
constexpr int kLeaderKeepaliveMs = 11'000;
constexpr int kLeaderKeepaliveTimeoutMs = 4'000;

// Of the address, or that of a name if it is none.
HostPort::Kind KindOf(const std::string& text) {
  const auto parsed = address::ParseHostPort(text);
  return parsed.has_value() && parsed->port != 0 ? parsed->kind : HostPort::Kind::kName;
}

absl::Status BadAddress(absl::string_view text) {
  return status::Error(absl::StatusCode::kInvalidArgument, "BAD_ADDRESS", text);
}

}  // namespace

absl::StatusOr<std::string> ReplicaTarget(const std::vector<std::string>& addresses) {
  if (addresses.empty()) return BadAddress("names no address; expected at least one");
  if (addresses.size() > kMaxReplicas) {
    return BadAddress(
        absl::StrCat("names ", addresses.size(), " addresses; expected at most ", kMaxReplicas));
  }
  if (addresses.size() == 1) {
    if (absl::StrContains(addresses[0], ":") && !absl::StrContains(addresses[0], ",")) {
      return addresses[0];
    }
    return BadAddress(absl::StrCat("'", addresses[0],
                                   "' is no address; expected `host:port`, or a target of gRPC "
                                   "such as `dns:///host:port`"));
  }
  const HostPort::Kind kind = KindOf(addresses[0]);
  for (const std::string& address : addresses) {
    if (KindOf(address) == HostPort::Kind::kName) {
      return BadAddress(absl::StrCat("'", address,
                                     "' is no `<ip>:<port>`, which each of several replicas must "
                                     "be named by; for names use one `dns:///` target"));
    }
    if (KindOf(address) != kind) {
      return BadAddress(absl::StrCat("'", address, "' and '", addresses[0],
                                     "' are of different families; expected only IPv4 or only "
                                     "IPv6"));
    }
  }
  return absl::StrCat(kind == HostPort::Kind::kIpv4 ? "ipv4:" : "ipv6:",
                      absl::StrJoin(addresses, ","));
}

std::shared_ptr<grpc::Channel> DialLeader(const std::string& target,
                                          std::shared_ptr<grpc::ChannelCredentials> credentials) {
  if (!absl::StrContains(target, ",") && !absl::StrContains(target, "///")) {
    return Dial(target, std::move(credentials));
  }
  KeepCallbackThreads();
  grpc::ChannelArguments args = ChannelSettings();
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kLeaderKeepaliveMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kLeaderKeepaliveTimeoutMs);
  args.SetServiceConfigJSON(absl::StrCat(
      R"({"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":")",
      kLeaderHealth, R"("}})"));
  return grpc::experimental::CreateCustomChannelWithInterceptors(target, credentials, args,
                                                                 MakeClientInterceptors());
}

}  // namespace capstan::rpc
