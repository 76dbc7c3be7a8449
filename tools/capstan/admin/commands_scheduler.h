#ifndef CAPSTAN_TOOLS_CAPSTAN_ADMIN_COMMANDS_SCHEDULER_H_
#define CAPSTAN_TOOLS_CAPSTAN_ADMIN_COMMANDS_SCHEDULER_H_

#include "tools/capstan/cli/invocation.h"

namespace CLI {
class App;
}  // namespace CLI

namespace capstan::admin {

// `capstan scheduler …`, which reads what the scheduler has left on disk, as in
// tools/capstan/cli/commands.h.
void AddSchedulerCommands(CLI::App& app, cli::Act* act);

}  // namespace capstan::admin

#endif  // CAPSTAN_TOOLS_CAPSTAN_ADMIN_COMMANDS_SCHEDULER_H_
