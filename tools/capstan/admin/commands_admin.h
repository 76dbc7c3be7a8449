#ifndef CAPSTAN_TOOLS_CAPSTAN_ADMIN_COMMANDS_ADMIN_H_
#define CAPSTAN_TOOLS_CAPSTAN_ADMIN_COMMANDS_ADMIN_H_

#include "tools/capstan/cli/invocation.h"

namespace CLI {
class App;
}  // namespace CLI

namespace capstan::admin {

// `capstan admin …`, as in tools/capstan/cli/commands.h.
void AddAdminCommands(CLI::App& app, cli::Act* act);

}  // namespace capstan::admin

#endif  // CAPSTAN_TOOLS_CAPSTAN_ADMIN_COMMANDS_ADMIN_H_
