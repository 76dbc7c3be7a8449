#include "integration/kube_bench/own_use.h"

#include <sys/resource.h>

#include <fstream>

#include "absl/time/time.h"

namespace capstan::kube::bench {
namespace {

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

}  // namespace

OwnUse::OwnUse(const Clock* clock) : clock_(clock), wall_(clock->Read().boot), cpu_(CpuSeconds()) {}

void OwnUse::Since(const std::string& name, nlohmann::json* told) const {
  (*told)[name + "_wall_s"] = absl::ToDoubleSeconds(clock_->Read().boot - wall_);
  (*told)[name + "_cpu_s"] = CpuSeconds() - cpu_;
}

double OwnMemory(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string word;
  double kib = 0;
  while (status >> word) {
    if (word == field + ":" && status >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace capstan::kube::bench
