#ifndef CAPSTAN_INTEGRATION_KUBE_BENCH_OWN_USE_H_
#define CAPSTAN_INTEGRATION_KUBE_BENCH_OWN_USE_H_

#include <string>

#include "libs/time/clock.h"
#include "nlohmann/json.hpp"

namespace capstan::kube::bench {

// What this process uses from now on.
class OwnUse {
 public:
  // The clock must outlive it.
  explicit OwnUse(const Clock* clock);

  // Adds `<name>_wall_s` and `<name>_cpu_s`.
  void Since(const std::string& name, nlohmann::json* told) const;

 private:
  const Clock* const clock_;
  const BootTime wall_;
  const double cpu_;
};

// In bytes, of a line of /proc/self/status: VmRSS, VmHWM. 0 if there is none.
double OwnMemory(const std::string& field);

}  // namespace capstan::kube::bench

#endif  // CAPSTAN_INTEGRATION_KUBE_BENCH_OWN_USE_H_
