#include <string>
#include <vector>

#include "libs/time/system_clock.h"
#include "services/node_agent/shim/shim_command.h"

int main(int argc, char** argv) {
  return capstan::node_agent::RunShimCommand(std::vector<std::string>(argv + 1, argv + argc),
                                             capstan::SystemClock());
}
