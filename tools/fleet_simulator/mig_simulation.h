#ifndef CAPSTAN_TOOLS_FLEET_SIMULATOR_MIG_SIMULATION_H_
#define CAPSTAN_TOOLS_FLEET_SIMULATOR_MIG_SIMULATION_H_

#include <functional>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "libs/mig/packing.h"
#include "libs/mig/state_table.h"
#include "tools/fleet_simulator/mig_workload.h"

namespace capstan::fleet_simulator {

// Where an instance goes on GPUs in these states, or that it fits nowhere.
using MigPolicy =
    std::function<absl::optional<mig::Choice>(absl::Span<const mig::State> gpus, int profile)>;

struct MigOutcome {
  // Per cent of memory slices, over the time in which Tasks come.
  double used = 0;
  // Per cent of Tasks that start when they come.
  double at_once = 0;
  // Mean hours from coming to starting: of all; of 4 memory slices and more; of whole GPUs.
  double wait = 0;
  double wait_large = 0;
  double wait_whole = 0;

  friend bool operator==(const MigOutcome&, const MigOutcome&) = default;
};

// Runs the Tasks, which are by time: instances are made when Tasks start and go when they end; who
// does not fit waits, and whoever fits starts, the earlier first, whenever one has ended. Nobody is
// stopped or moved.
MigOutcome RunMigTasks(const mig::StateTable& table, const std::vector<MigTask>& tasks,
                       const MigWorkloadOptions& options, const MigPolicy& policy);

}  // namespace capstan::fleet_simulator

#endif  // CAPSTAN_TOOLS_FLEET_SIMULATOR_MIG_SIMULATION_H_
