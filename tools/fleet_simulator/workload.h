#ifndef CAPSTAN_TOOLS_FLEET_SIMULATOR_WORKLOAD_H_
#define CAPSTAN_TOOLS_FLEET_SIMULATOR_WORKLOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace capstan::fleet_simulator {

// Nodes that are all alike, in racks.
struct FleetSize {
  int nodes = 256;
  int nodes_per_rack = 16;
  int gpus_per_node = 8;

  int64_t gpus() const { return int64_t{nodes} * gpus_per_node; }
};

struct WorkloadQueue {
  std::string id;
  int64_t weight = 100;
  int64_t guaranteed_gpus = 0;
};

struct WorkloadJob {
  // Since the beginning of the workload.
  absl::Duration submitted;
  // Position in Workload::queues.
  int queue = 0;
  int32_t priority = 0;
  // A gang: all start or none.
  int tasks = 1;
  int gpus_per_task = 1;
  // How long it runs if nobody stops it.
  absl::Duration runtime;
  // What its user said that it runs for at most; infinite if nothing.
  absl::Duration declared = absl::InfiniteDuration();
  // What is older than this is not lost when it is stopped; infinite if it has no checkpoints.
  absl::Duration checkpoint_period = absl::InfiniteDuration();

  int64_t gpus() const { return int64_t{tasks} * gpus_per_task; }
};

struct Workload {
  FleetSize fleet;
  std::vector<WorkloadQueue> queues;
  // By time of submission.
  std::vector<WorkloadJob> jobs;
};

}  // namespace capstan::fleet_simulator

#endif  // CAPSTAN_TOOLS_FLEET_SIMULATOR_WORKLOAD_H_
