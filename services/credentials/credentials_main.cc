#include "libs/process/main.h"
#include "services/credentials/run.h"

int main(int argc, char** argv) {
  capstan::process::Main(argc, argv, capstan::credentials::ThisProgram());
}
