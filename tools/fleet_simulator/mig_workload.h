#ifndef CAPSTAN_TOOLS_FLEET_SIMULATOR_MIG_WORKLOAD_H_
#define CAPSTAN_TOOLS_FLEET_SIMULATOR_MIG_WORKLOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/mig/profiles.h"

namespace capstan::fleet_simulator {

// What Tasks ask for: how many of a hundred want each profile of an H100, in the order of its table
// (1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb).
struct MigMix {
  std::string name;
  std::vector<int64_t> percent;
};

// Chosen before any figure was made: a bit of everything; small Tasks with a rare whole GPU; halves
// and more.
const std::vector<MigMix>& MigMixes();

// Chosen before any figure was made.
struct MigWorkloadOptions {
  uint64_t seed = 1;
  int gpus = 64;
  // Over which Tasks come, evenly.
  absl::Duration span = absl::Hours(24) * 14;
  // Time on memory slices that is asked for, in per cent of what there is.
  int load_percent = 80;
  // Log-normal, cut to [2 min, 48 h].
  absl::Duration median_runtime = absl::Hours(1);
  double runtime_sigma = 1.2;
};

struct MigTask {
  absl::Duration at;
  absl::Duration runtime;
  // Index in the model's profiles.
  int profile = 0;
};

// By time. The same for the same options and mix on every machine.
std::vector<MigTask> GenerateMigTasks(const mig::DeviceModel& model, const MigMix& mix,
                                      const MigWorkloadOptions& options);

}  // namespace capstan::fleet_simulator

#endif  // CAPSTAN_TOOLS_FLEET_SIMULATOR_MIG_WORKLOAD_H_
