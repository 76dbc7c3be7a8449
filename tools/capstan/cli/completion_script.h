#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_COMPLETION_SCRIPT_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_COMPLETION_SCRIPT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan::cli {

// Shells for which there is a script.
const std::vector<std::string>& CompletionShells();

// What a shell reads to complete `capstan`; it asks `capstan __complete` at each press of the key.
// INVALID_ARGUMENT, reason NO_SUCH_SHELL.
absl::StatusOr<std::string> CompletionScript(absl::string_view shell);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_COMPLETION_SCRIPT_H_
