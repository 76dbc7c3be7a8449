// The command line: what words there are and what they take. Each function adds commands to `app`;
// when one is chosen, parsing puts what it does into `*act`.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_COMMANDS_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_COMMANDS_H_

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
void AddDataCommands(CLI::App& app, Act* act);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_COMMANDS_H_
