#ifndef CAPSTAN_TOOLS_FLEET_SIMULATOR_OUTCOME_H_
#define CAPSTAN_TOOLS_FLEET_SIMULATOR_OUTCOME_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace capstan::fleet_simulator {

// Waiting times of some Jobs: from the submission to the first start.
struct Waits {
  int64_t jobs = 0;
  absl::Duration p50;
  absl::Duration p90;
  absl::Duration p99;
  absl::Duration mean;
};

// Nearest-rank percentiles. Sorts `waits`.
Waits Summarize(std::vector<absl::Duration>& waits);

// The fleet at one time.
struct Sample {
  absl::Duration at;
  // Parts of all GPUs.
  double used = 0;
  // Free on nodes that are used in part.
  double fragmented = 0;
  // What queues lack of their fair shares (what they could use of them), together.
  double unfair = 0;
  int64_t waiting_jobs = 0;
};

// How a workload went. Figures over time are averages of samples taken every hour between the first
// submission and the last.
struct Outcome {
  double utilisation = 0;
  // As utilisation, without work that was lost.
  double goodput = 0;
  // Of the GPUs that are free, those on nodes used in part.
  double fragmentation = 0;
  double unfairness = 0;
  int64_t preemptions = 0;
  double lost_gpu_hours = 0;
  // Jobs that no fleet of this size can run.
  int64_t impossible_jobs = 0;
  // Until the last Job ended.
  absl::Duration makespan;
  int64_t rounds = 0;
  Waits waits;
  std::map<std::string, Waits> by_queue;
  // By GPUs: "1", "2-7", "8", "9-63", "64+".
  std::map<std::string, Waits> by_size;
  std::vector<Sample> samples;
  // Of every Job that started, ascending.
  std::vector<absl::Duration> sorted_waits;
};

// The figures that policies are compared by, in the order in which they are shown.
struct Measure {
  const char* name;
  const char* unit;
  bool higher_is_better;
  double (*of)(const Outcome&);
};
const std::vector<Measure>& Measures();

std::string SizeClass(int64_t gpus);

}  // namespace capstan::fleet_simulator

#endif  // CAPSTAN_TOOLS_FLEET_SIMULATOR_OUTCOME_H_
