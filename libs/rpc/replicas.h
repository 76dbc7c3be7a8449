// One service, several processes.
#ifndef CAPSTAN_LIBS_RPC_REPLICAS_H_
#define CAPSTAN_LIBS_RPC_REPLICAS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/channel.h"
#include "grpcpp/security/credentials.h"

namespace capstan::rpc {

// gRPC's target for the addresses of one service's replicas: one address is any target; several are
// each `<IPv4>:<port>` or `[<IPv6>]:<port>`, all of one family, at most 16. INVALID_ARGUMENT names
// the address that is not.
absl::StatusOr<std::string> ReplicaTarget(const std::vector<std::string>& addresses);

// A channel that carries every call to the replica that leads (of a service whose replicas are
// equal: to those that can act, in turn), as the health services of all say (kLeaderHealth, see
// server.h): it is connected to all, and goes over within a round trip once a new leader says so.
// While none leads, calls fail with UNAVAILABLE. `target` as ReplicaTarget makes it; a single
// `host:port` is dialled as it is, for there is nobody else to go to. The settings are otherwise
// Dial's.
std::shared_ptr<grpc::Channel> DialLeader(const std::string& target,
                                          std::shared_ptr<grpc::ChannelCredentials> credentials);

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_REPLICAS_H_
