#ifndef CAPSTAN_INTEGRATION_BENCH_SUITE_H_
#define CAPSTAN_INTEGRATION_BENCH_SUITE_H_

#include <string>
#include <vector>

#include "libs/time/clock.h"

namespace capstan::bench {

struct SuiteOptions {
  // As little as shows that everything works.
  bool smoke = false;
  // Names of measurements; none: all.
  std::vector<std::string> only = {};
};

// Names of all measurements, separated by commas.
std::string SuiteNames();

// Prints the figures on standard output, a line each, and what is under way and what went wrong on
// standard error. 0 unless something did not work: slow is not wrong. Says why not, and gives 0,
// where platforms can't be started at all. To be called before any thread is made.
int RunSuite(const SuiteOptions& options, const Clock* clock);

}  // namespace capstan::bench

#endif  // CAPSTAN_INTEGRATION_BENCH_SUITE_H_
