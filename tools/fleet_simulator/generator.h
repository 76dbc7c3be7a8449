#ifndef CAPSTAN_TOOLS_FLEET_SIMULATOR_GENERATOR_H_
#define CAPSTAN_TOOLS_FLEET_SIMULATOR_GENERATOR_H_

#include <cstdint>

#include "absl/time/time.h"
#include "tools/fleet_simulator/workload.h"

namespace capstan::fleet_simulator {

// What generated workloads are like. The figures in README.md are made with these defaults, which
// were chosen before them.
struct GeneratorOptions {
  uint64_t seed = 1;
  FleetSize fleet;
  // Over which Jobs are submitted.
  absl::Duration span = absl::Hours(14 * 24);
  // GPU time that the Jobs ask for, as a part of what the fleet has in `span`: per cent.
  int load_percent = 95;
  int queues = 4;
  // Of the fleet, divided among the queues.
  int guaranteed_percent = 60;
  // Jobs whose users declare no duration; the others declare 1.1 to 4 times what it takes.
  int undeclared_percent = 20;
  // Jobs of priority 10, that others of their queue make room for.
  int urgent_percent = 5;
  // Jobs of any size save every 10 min, 30 min, 1 h, 4 h or never, a fifth of them each; else every
  // 30 min, and of those on less than 8 GPUs half never. All else is the same with and without.
  bool varied_checkpoints = false;
};

// Jobs as users of research fleets submit them: nearly half on one GPU, few on hundreds of them
// that take most of the GPU time; run times log-normal (median 40 min for one GPU, longer for
// more), at most four days; more submissions by day than by night. The same options give the same
// workload.
Workload Generate(const GeneratorOptions& options);

}  // namespace capstan::fleet_simulator

#endif  // CAPSTAN_TOOLS_FLEET_SIMULATOR_GENERATOR_H_
