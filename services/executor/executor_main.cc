#include "libs/process/main.h"
#include "services/executor/run.h"

int main(int argc, char** argv) {
  capstan::process::Main(argc, argv, capstan::executor::ThisProgram());
}
