#ifndef CAPSTAN_INTEGRATION_KUBE_BENCH_FIGURE_H_
#define CAPSTAN_INTEGRATION_KUBE_BENCH_FIGURE_H_

#include <string>
#include <vector>

namespace capstan::kube::bench {

struct Figure {
  std::string name;
  // One of each run; at least one.
  std::vector<double> values;
  std::string unit;
  bool lower_is_better = true;
  // What is asked for; 0 if nothing is.
  double bar = 0;
  std::string conditions;
};

// The line that `./dev bench` prints: median, least and greatest. With its end of line.
std::string ToLine(const Figure& figure);

// The smallest value that `share` (0 to 1) of the values do not exceed; of at least one value.
double Percentile(std::vector<double> values, double share);

}  // namespace capstan::kube::bench

#endif  // CAPSTAN_INTEGRATION_KUBE_BENCH_FIGURE_H_
