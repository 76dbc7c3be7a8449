// Months of a fleet's time in minutes: `fleet_simulator --help`.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tools/fleet_simulator/study.h"

namespace capstan::fleet_simulator {
namespace {

int Main(int argc, char** argv) {
  StudyOptions options;
  int days = 14;
  CLI::App app{
      "Runs workloads through the scheduler's quota tree and its engine's rounds, and compares\n"
      "policies.\n"
      "Example: fleet_simulator --seeds 10 --days 14 --nodes 256 --plots /tmp/plots"};
  app.add_option("--seeds", options.seeds, "Generated workloads")->check(CLI::Range(1, 1000));
  app.add_option("--first-seed", options.first_seed, "Seed of the first")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--days", days, "Over which Jobs are submitted")->check(CLI::Range(1, 3650));
  app.add_option("--nodes", options.generator.fleet.nodes, "Nodes of the fleet")
      ->check(CLI::Range(1, 10000));
  app.add_option("--gpus-per-node", options.generator.fleet.gpus_per_node, "GPUs of each node")
      ->check(CLI::Range(1, 64));
  app.add_option("--load", options.generator.load_percent,
                 "GPU time asked for, in per cent of what there is")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--varied-checkpoints", options.generator.varied_checkpoints,
               "Generated Jobs save every 10 min, 30 min, 1 h, 4 h or never, a fifth of them each");
  app.add_option("--trace", options.trace_file,
                 "CSV with Jobs instead of generated ones; columns in README.md");
  app.add_option(
         "--policies", options.policies,
         "Of all, no-backfill, no-reclaim, no-preemption, no-preemption-cost; the others are "
         "compared to the first")
      ->delimiter(',');
  app.add_option("--plots", options.plots_folder, "Writes SVG plots into this folder");
  app.add_flag("--json", options.json, "A line of JSON for each figure instead of tables");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.generator.span = absl::Hours(24) * days;
  // `bazel run` starts a program in a folder of its own: paths are meant from where the user is.
  const char* from = std::getenv("BUILD_WORKING_DIRECTORY");
  if (from != nullptr && chdir(from) != 0) {
    std::fprintf(stderr, "fleet_simulator: cannot go to %s\n", from);
    return 1;
  }
  const absl::Status status = RunStudy(options, stdout, stderr);
  if (status.ok()) return 0;
  std::fprintf(stderr, "fleet_simulator: %s\n", std::string(status.message()).c_str());
  return status.code() == absl::StatusCode::kInvalidArgument ? 2 : 1;
}

}  // namespace
}  // namespace capstan::fleet_simulator

int main(int argc, char** argv) { return capstan::fleet_simulator::Main(argc, argv); }
