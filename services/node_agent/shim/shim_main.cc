#include <stdio.h>

#include "libs/time/system_clock.h"
#include "services/node_agent/shim/shim.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: shim <folder of a Task>\n");
    return 2;
  }
  return capstan::node_agent::RunShim(argv[1], capstan::SystemClock());
}
