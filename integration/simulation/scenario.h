#ifndef CAPSTAN_INTEGRATION_SIMULATION_SCENARIO_H_
#define CAPSTAN_INTEGRATION_SIMULATION_SCENARIO_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "integration/simulation/mutants.h"

namespace capstan::simulation {

struct ScenarioConfig {
  uint64_t seed = 0;
  int clusters = 2;
  int nodes_per_cluster = 3;
  int jobs = 24;
  // Jobs come and faults happen during this time; afterwards all is healed and must settle.
  absl::Duration trouble = absl::Minutes(20);
  // By then nothing may be left.
  absl::Duration settle = absl::Minutes(60);
  bool faults = true;
  // Jobs differ in priority, so that some are ended for others; some have a time limit, some a
  // group that must stand on one Node and another beside it.
  bool standing = false;
  bool print_log = false;
  Mutants mutants;
};

struct Outcome {
  // Empty if every invariant held at every step and at the end.
  std::string violation;
  uint64_t log_hash = 0;
  int64_t steps = 0;
  int64_t gangs = 0;
  int64_t commits = 0;
  int64_t certificates = 0;
  int64_t tokens = 0;
  // Times that a Job was ended for one of higher standing.
  int64_t preemptions = 0;
  // Times that a gang was stopped for a maintenance window, and gangs that were placed on a Node
  // of which one was to begin later.
  int64_t evictions = 0;
  int64_t placed_before = 0;
  // Orders of capacity whose nominee was placed on their Nodes.
  int64_t orders_used = 0;
  // Of those that were placed, sections that a gang may be without and had, or had not.
  int64_t sections_there = 0;
  int64_t sections_left_out = 0;
  // Gangs that were placed in a Queue with a limit, and those of Jobs that come after others.
  int64_t placed_below_limits = 0;
  int64_t placed_after_others = 0;
  // Generations that had begun and were ended for another Job, those placed of Jobs that may not be
  // so, first ones outside of a Queue that keeps something to itself, and those that require
  // something of the labels of Nodes.
  int64_t ended_for_others = 0;
  int64_t placed_for_good = 0;
  int64_t placed_beside_lenders = 0;
  int64_t placed_by_labels = 0;
  // Tasks that began with a MIG instance.
  int64_t instances = 0;
  // Tasks that began with a Dataset, versions that had to leave the Site, and loads that went on
  // with what an attempt before a crash had journalled.
  int64_t tasks_with_datasets = 0;
  int64_t versions_left = 0;
  int64_t loads_taken_up = 0;
  std::map<std::string, int> faults;
  absl::Duration time;
};

// Every kind of fault that a counting seed must have fired.
inline constexpr const char* kFaultKinds[] = {
    "crash",      "stop",      "partition", "partition one way", "delay",      "duplicate",
    "reorder",    "slow peer", "reboot",    "shim kill",         "shim stop",  "program kill",
    "port taken", "disk full", "slow disk", "failing disk",      "clock step", "denial",
    "finding",    "cordon",    "retention"};
// Those that no single seed need have, but the seeds together.
inline constexpr const char* kRareFaults[] = {"loader cut off",
                                              "loader cut off one way",
                                              "loader killed while it loads",
                                              "cluster manager cut off",
                                              "cluster manager cut off one way",
                                              "failed commit that is there",
                                              "failed commit that is lost",
                                              "queue held",
                                              "queue drained",
                                              "queue cordoned",
                                              "job held",
                                              "job changed",
                                              "simulated placement"};

// Runs the real cores of scheduler (two replicas of it, and two of credentials), executors, agents,
// shims, data_loader, credentials, telemetry and cluster_manager through one seeded history.
Outcome RunScenario(const ScenarioConfig& config);

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_SCENARIO_H_
