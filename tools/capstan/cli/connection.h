#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_CONNECTION_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_CONNECTION_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/status/status_macros.h"
#include "tools/capstan/cli/invocation.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::cli {

// A platform and a stub of one of its services, for one thread at a time.
template <typename Service>
struct Connection {
  std::unique_ptr<Platform> platform;
  std::shared_ptr<typename Service::Stub> stub;
};

// To the gRPC service `Service` of `part`, e.g. `scheduler`. What the invocation names must outlive
// it. Errors as of Platform::Open and Platform::Channel.
template <typename Service>
absl::StatusOr<Connection<Service>> Connect(const Invocation& invocation, absl::string_view part) {
  Connection<Service> connection;
  CAPSTAN_ASSIGN_OR_RETURN(connection.platform, Platform::Open(invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, connection.platform->Channel(part));
  connection.stub = Service::NewStub(channel);
  return connection;
}

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_CONNECTION_H_
