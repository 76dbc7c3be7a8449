#ifndef CAPSTAN_TOOLS_FLEET_SIMULATOR_STUDY_H_
#define CAPSTAN_TOOLS_FLEET_SIMULATOR_STUDY_H_

#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/fleet_simulator/generator.h"

namespace capstan::fleet_simulator {

struct StudyOptions {
  // Its seed is set by the study.
  GeneratorOptions generator;
  int seeds = 10;
  int first_seed = 1;
  // Instead of generated workloads, if not empty; then there is one.
  std::string trace_file;
  // Names of Policies().
  std::vector<std::string> policies = {"all", "no-backfill", "no-reclaim", "no-preemption",
                                       "no-preemption-cost"};
  // No plots, if empty. Made, if absent.
  std::string plots_folder;
  bool json = false;
};

// Simulates every policy on every workload and prints tables (or JSON) to `out`, progress to
// `err`. INVALID_ARGUMENT for what the user gave.
absl::Status RunStudy(const StudyOptions& options, std::FILE* out, std::FILE* err);

}  // namespace capstan::fleet_simulator

#endif  // CAPSTAN_TOOLS_FLEET_SIMULATOR_STUDY_H_
