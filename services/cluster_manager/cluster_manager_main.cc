#include "libs/process/main.h"
#include "services/cluster_manager/run.h"

int main(int argc, char** argv) {
  capstan::process::Main(argc, argv, capstan::cluster_manager::ThisProgram());
}
