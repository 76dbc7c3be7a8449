#ifndef CAPSTAN_INTEGRATION_PLATFORM_COMMAND_H_
#define CAPSTAN_INTEGRATION_PLATFORM_COMMAND_H_

#include <string>
#include <vector>

namespace capstan::integration {

struct CommandResult {
  // As a shell has it; -1 if it could not be started.
  int exit_code = -1;
  std::string out;
  std::string err;
};

// Runs a program to its end. `argv` with an absolute path; `environment` is all of it. What it
// prints goes through files in `folder`, which are gone afterwards. A failure of the test if it
// can't be started.
CommandResult RunCommand(const std::vector<std::string>& argv,
                         const std::vector<std::string>& environment, const std::string& folder);

}  // namespace capstan::integration

#endif  // CAPSTAN_INTEGRATION_PLATFORM_COMMAND_H_
