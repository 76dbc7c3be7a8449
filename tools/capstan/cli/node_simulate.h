#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_NODE_SIMULATE_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_NODE_SIMULATE_H_

#include <string>

#include "absl/status/status.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::cli {

struct SimulateChangesOptions {
  // A ChangesFile, `-` is standard input.
  std::string file;
  // Also the scheduler that leads may answer, if no other does.
  bool on_leader = false;
};

// `node simulate`: writes what would come of each alternative as soon as it is known, and stores
// nothing. Asks schedulers that follow. Fails as INVALID_ARGUMENT in the end if any was refused.
absl::Status SimulateChanges(const SimulateChangesOptions& options, Invocation& invocation);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_NODE_SIMULATE_H_
