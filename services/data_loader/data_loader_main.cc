#include "libs/process/main.h"
#include "services/data_loader/run.h"

int main(int argc, char** argv) {
  capstan::process::Main(argc, argv, capstan::data_loader::ThisProgram());
}
