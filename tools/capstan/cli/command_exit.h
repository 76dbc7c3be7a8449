#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_COMMAND_EXIT_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_COMMAND_EXIT_H_

#include "absl/status/status.h"
#include "absl/types/optional.h"

namespace capstan::cli {

// How a command that was run in a Task ended, as what an act returns: OK for 0. The program exits
// with the code and says nothing about it, as the command's own output has said what there was.
absl::Status CommandExit(int exit_code);

// The code, if that is what the status is.
absl::optional<int> CommandExitCode(const absl::Status& status);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_COMMAND_EXIT_H_
