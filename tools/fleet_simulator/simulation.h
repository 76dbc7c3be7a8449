#ifndef CAPSTAN_TOOLS_FLEET_SIMULATOR_SIMULATION_H_
#define CAPSTAN_TOOLS_FLEET_SIMULATOR_SIMULATION_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/fleet_simulator/outcome.h"
#include "tools/fleet_simulator/workload.h"

namespace capstan::fleet_simulator {

// What of the scheduler's engine is on.
struct Policy {
  std::string name;
  bool backfill = true;
  bool preemption = true;
  // Queues with guarantees take back what others borrowed.
  bool reclaim = true;
  // Of victims those are chosen that lose least work since their last checkpoints.
  bool preemption_cost = true;
};

// `all`, and one for each thing that can be off.
const std::vector<Policy>& Policies();

struct SimulationOptions {
  Policy policy;
  // Between rounds, if anything has changed.
  absl::Duration round_period = absl::Minutes(1);
  // Between a victim's being told to go and its having gone.
  absl::Duration grace = absl::Seconds(30);
  // Gangs that one round considers.
  int round_length = 2000;
  // Called with parts of the time that is simulated, in [0, 1].
  std::function<void(double)> progress;
  // Each round is checked by the engine's independent validator: slow, for tests.
  bool check_rounds = false;
};

// Runs the workload through the scheduler's quota tree and its engine's rounds (round::Round),
// event by event, until all Jobs that can have ended. A pure function of its arguments. INTERNAL if
// a round broke a rule.
absl::StatusOr<Outcome> Simulate(const Workload& workload, const SimulationOptions& options);

}  // namespace capstan::fleet_simulator

#endif  // CAPSTAN_TOOLS_FLEET_SIMULATOR_SIMULATION_H_
