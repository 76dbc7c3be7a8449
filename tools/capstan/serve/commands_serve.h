#ifndef CAPSTAN_TOOLS_CAPSTAN_SERVE_COMMANDS_SERVE_H_
#define CAPSTAN_TOOLS_CAPSTAN_SERVE_COMMANDS_SERVE_H_

#include "tools/capstan/cli/invocation.h"

namespace CLI {
class App;
}  // namespace CLI

namespace capstan::serve {

// Adds `serve <part>`; see cli/commands.h.
void AddServeCommands(CLI::App& app, cli::Act* act);

}  // namespace capstan::serve

#endif  // CAPSTAN_TOOLS_CAPSTAN_SERVE_COMMANDS_SERVE_H_
