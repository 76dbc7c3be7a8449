#include "libs/process/main.h"
#include "services/scheduler/run.h"

int main(int argc, char** argv) {
  capstan::process::Main(argc, argv, capstan::scheduler::ThisProgram());
}
