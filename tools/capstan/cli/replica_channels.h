#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_REPLICA_CHANNELS_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_REPLICA_CHANNELS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/channel.h"
#include "libs/time/clock.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::cli {

// A channel to each replica of a service, whether it leads or not, in the order of their addresses:
// for calls that any of them may answer. `clock` outlives them. Errors as of Platform::Channel.
absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> ReplicaChannels(
    Platform& platform, absl::string_view service, const Clock* clock);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_REPLICA_CHANNELS_H_
