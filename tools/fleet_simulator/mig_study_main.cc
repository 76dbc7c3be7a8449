// MIG packing against first fit: `mig_study --help`.
#include <cstdio>

#include "CLI/CLI.hpp"
#include "absl/time/time.h"
#include "tools/fleet_simulator/mig_study.h"

namespace capstan::fleet_simulator {
namespace {

int Main(int argc, char** argv) {
  MigStudyOptions options;
  int days = 14;
  CLI::App app{
      "Compares where MIG instances are placed: first fit, and the scheduler's packing.\n"
      "Example: mig_study --seeds 10 --gpus 64"};
  app.add_option("--seeds", options.seeds, "Generated workloads")->check(CLI::Range(2, 1000));
  app.add_option("--first-seed", options.first_seed, "Seed of the first")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--gpus", options.workload.gpus, "H100 GPUs of the fleet")
      ->check(CLI::Range(1, 10000));
  app.add_option("--days", days, "Over which Tasks come")->check(CLI::Range(1, 365));
  app.add_option("--loads", options.loads, "Time on memory slices asked for, in per cent")
      ->delimiter(',')
      ->check(CLI::Range(1, 300));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.workload.span = absl::Hours(24) * days;
  std::fputs(MigStudyTables(options).c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace capstan::fleet_simulator

int main(int argc, char** argv) { return capstan::fleet_simulator::Main(argc, argv); }
