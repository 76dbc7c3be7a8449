// The command line: what words there are and what they take. Each function adds commands to `app`;
// when one is chosen, parsing puts what it does into `*act`.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_COMMANDS_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_COMMANDS_H_

#include <string>
#include <vector>

#include "tools/capstan/cli/invocation.h"

namespace CLI {
class App;
}  // namespace CLI

namespace capstan::cli {

// --data-dir, --project, -o and the like, and `help`.
void AddGlobalOptions(CLI::App& app, Invocation* invocation, Act* act);

void AddJobCommands(CLI::App& app, Act* act);
void AddFleetCommands(CLI::App& app, Act* act);
void AddProjectCommands(CLI::App& app, Act* act);
void AddAccessCommands(CLI::App& app, Act* act);
void AddSubscriptionCommands(CLI::App& app, Act* act);
// `completion` and `man`, for all commands that `app` has by the time they run.
void AddShellCommands(CLI::App& app, Act* act);

// What `capstan __complete -- WORD…` does: the scripts of `capstan completion` call it.
void PrintCompletion(const CLI::App& app, const std::vector<std::string>& words,
                     Invocation& invocation);
void AddDataCommands(CLI::App& app, Act* act);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_COMMANDS_H_
