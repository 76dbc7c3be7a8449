#include "libs/process/main.h"
#include "services/telemetry/run.h"

int main(int argc, char** argv) {
  capstan::process::Main(argc, argv, capstan::telemetry::ThisProgram());
}
