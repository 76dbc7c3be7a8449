// Figures of the scheduler's benchmarks.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_BENCH_FIGURE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_BENCH_FIGURE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace capstan::scheduler {

// Time since some fixed point.
using Stopwatch = std::function<absl::Duration()>;
// That of the machine.
Stopwatch MakeStopwatch();

struct Figure {
  std::string name;
  double value = 0;
  const char* unit = "";
  const char* better = "";
  double low = 0;
  double high = 0;
  int runs = 0;
  // The bar that the figure is held against; 0 if there is none.
  double limit = 0;
  std::string conditions;
};

// The median of at least one value, with least and greatest.
Figure Summarise(std::string name, std::vector<double> values, const char* unit, const char* better,
                 double limit, std::string conditions);

// Bytes of the heap in use, those around each allocation among them. Only of glibc's own allocator.
int64_t HeapBytes();

// Keeps the process on the first core that it may use.
void PinToOneCore();
// Keeps the calling thread, and those that it makes, off one core, which is then another thread's
// that calls the second one. Nothing where there is but one.
void SetOneCoreApart();
void MoveToCoreApart();

// A line of JSON each, as `./dev bench` prints them. 1 if a rule was broken.
int ReportFigures(const absl::StatusOr<std::vector<Figure>>& figures);
int ReportFigure(const absl::StatusOr<Figure>& figure);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_BENCH_FIGURE_H_
