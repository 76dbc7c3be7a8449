#ifndef CAPSTAN_TOOLS_FLEET_SIMULATOR_MIG_STUDY_H_
#define CAPSTAN_TOOLS_FLEET_SIMULATOR_MIG_STUDY_H_

#include <string>
#include <vector>

#include "tools/fleet_simulator/mig_workload.h"

namespace capstan::fleet_simulator {

struct MigStudyOptions {
  // Its seed and load are set by the study.
  MigWorkloadOptions workload;
  std::vector<int> loads = {60, 80, 95};
  int seeds = 10;
  int first_seed = 1;
};

// A table for each mix and load: first fit; packing that takes every profile for as likely; packing
// that is told the mix. Beside the latter two the difference to first fit, paired by seed, with its
// 95 % interval, and `better` or `worse` where that is clear.
std::string MigStudyTables(const MigStudyOptions& options);

}  // namespace capstan::fleet_simulator

#endif  // CAPSTAN_TOOLS_FLEET_SIMULATOR_MIG_STUDY_H_
