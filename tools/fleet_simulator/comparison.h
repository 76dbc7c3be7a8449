#ifndef CAPSTAN_TOOLS_FLEET_SIMULATOR_COMPARISON_H_
#define CAPSTAN_TOOLS_FLEET_SIMULATOR_COMPARISON_H_

#include <limits>
#include <string>
#include <vector>

#include "tools/fleet_simulator/outcome.h"

namespace capstan::fleet_simulator {

// A mean of paired differences with its 95 % interval, by Student's t.
struct Difference {
  double mean = 0;
  // Half the interval's width; infinite for fewer than two values, which say nothing.
  double margin = std::numeric_limits<double>::infinity();

  // Zero is not in the interval.
  bool clear() const { return mean - margin > 0 || mean + margin < 0; }
};

Difference MeanDifference(const std::vector<double>& values);

// What one policy made of the workloads of all seeds.
struct PolicyOutcomes {
  std::string policy;
  // By seed, the same order for all policies.
  std::vector<Outcome> outcomes;
};

// A table: a line for each measure, a column for each policy with its mean over the seeds; beside
// all policies but the first, the difference to the first with its interval, and `worse` or
// `better` where that is clear.
std::string ComparisonTable(const std::vector<PolicyOutcomes>& policies);

// Waiting times of the first seed, by queue and by size.
std::string WaitTable(const PolicyOutcomes& policy);

// One object a line, for each policy, seed and measure:
// `{"policy":…,"seed":…,"measure":…,"unit":…,"value":…}`, and for those Jobs that started of each
// queue and of each size: `{"policy":…,"seed":…,"queue":…,"jobs":…,"mean_wait_h":…,"p50_wait_h":…}`
// with p90 and p99, and `gpus` in the place of `queue`.
std::string ComparisonJsonLines(const std::vector<PolicyOutcomes>& policies, int first_seed);

}  // namespace capstan::fleet_simulator

#endif  // CAPSTAN_TOOLS_FLEET_SIMULATOR_COMPARISON_H_
