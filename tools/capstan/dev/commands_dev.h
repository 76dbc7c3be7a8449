#ifndef CAPSTAN_TOOLS_CAPSTAN_DEV_COMMANDS_DEV_H_
#define CAPSTAN_TOOLS_CAPSTAN_DEV_COMMANDS_DEV_H_

#include "tools/capstan/cli/invocation.h"

namespace CLI {
class App;
}  // namespace CLI

namespace capstan::dev {

// Adds `dev up|down|status|demo`; see cli/commands.h.
void AddDevCommands(CLI::App& app, cli::Act* act);

}  // namespace capstan::dev

#endif  // CAPSTAN_TOOLS_CAPSTAN_DEV_COMMANDS_DEV_H_
