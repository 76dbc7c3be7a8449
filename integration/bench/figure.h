#ifndef CAPSTAN_INTEGRATION_BENCH_FIGURE_H_
#define CAPSTAN_INTEGRATION_BENCH_FIGURE_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace capstan::bench {

enum class Better { kLower, kHigher };

// What several runs gave for one question, and what could have been expected of the machine.
struct Figure {
  // Below `platform.`.
  std::string name;
  // One of each run; at least one.
  std::vector<double> values;
  std::string unit;
  Better better = Better::kLower;
  // What the machine, or the plain tool, gave for the same in this run; 0 if nothing stands for it.
  double limit = 0;
  // What the limit is.
  std::string limit_name = "";
  // What is asked for; 0 if nothing is.
  double bar = 0;
  std::string conditions = "";
};

// Of at least one value.
double Median(std::vector<double> values);
// The smallest value that `share` (0 to 1) of the values do not exceed; of at least one value.
double Percentile(std::vector<double> values, double share);
std::vector<double> InUnit(const std::vector<absl::Duration>& durations, absl::Duration unit);

// The line of JSON that `./dev bench` prints: median, least and greatest. With its end of line.
std::string ToLine(const Figure& figure);

}  // namespace capstan::bench

#endif  // CAPSTAN_INTEGRATION_BENCH_FIGURE_H_
