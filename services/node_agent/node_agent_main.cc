// The node agent as a program of its own; `node_agent_main shim` is the shim of its Tasks.

#include <string>
#include <vector>

#include "libs/process/main.h"
#include "libs/time/system_clock.h"
#include "services/node_agent/run.h"
#include "services/node_agent/shim/shim_command.h"

int main(int argc, char** argv) {
  // A shim owns one Task and must have one thread: nothing else of this program may begin.
  if (argc > 1 && std::string(argv[1]) == "shim") {
    const capstan::SystemClock clock;
    return capstan::node_agent::RunShimCommand(std::vector<std::string>(argv + 2, argv + argc),
                                               clock);
  }
  capstan::process::Main(argc, argv, capstan::node_agent::ThisProgram());
}
