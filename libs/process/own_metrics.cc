#include "libs/process/own_metrics.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace capstan::process {
namespace {

constexpr char kRenewals[] = "svid_renewals_total";
constexpr char kRenewalsHelp[] = "Tries to renew the process' own SVID.";

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

OwnMetrics::OwnMetrics(const Clock* clock, metrics::Registry* registry)
    : resident_bytes_(registry->AddGauge("resident_memory_bytes", "Memory that is resident.")),
      open_files_(registry->AddGauge("open_files", "File descriptors that are open.")),
      cpu_seconds_(registry->AddCounter("cpu_seconds_total", "CPU time, user and system.")),
      svid_expiry_(registry->AddGauge(
          "svid_expiry_timestamp_seconds",
          "When the SVID that is in use expires, in Unix time; 0 while there is none.")),
      svid_lifetime_(registry->AddGauge("svid_lifetime_seconds",
                                        "How long the SVID that is in use lives in all.")),
      renewed_(registry->AddCounter(kRenewals, kRenewalsHelp, {{"outcome", "renewed"}})),
      not_renewed_(registry->AddCounter(kRenewals, kRenewalsHelp, {{"outcome", "failed"}})) {
  registry->AddGauge("start_timestamp_seconds", "When the process started, in Unix time.")
      .Set(absl::ToDoubleSeconds(clock->Read().wall - absl::UnixEpoch()));
}

void OwnMetrics::Update(absl::Time svid_not_before, absl::Time svid_not_after) {
  int64_t size = 0;
  int64_t resident = 0;
  std::ifstream statm("/proc/self/statm");
  if (statm >> size >> resident) {
    resident_bytes_.Set(static_cast<double>(resident * sysconf(_SC_PAGESIZE)));
  }
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  // The iterator's own one is not counted.
  if (!error) {
    open_files_.Set(static_cast<double>(std::distance(begin(files), end(files)) - 1));
  }
  rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    const double now = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
    if (now > cpu_seconds_.value()) cpu_seconds_.Increment(now - cpu_seconds_.value());
  }
  svid_expiry_.Set(svid_not_after == absl::InfinitePast()
                       ? 0
                       : absl::ToDoubleSeconds(svid_not_after - absl::UnixEpoch()));
  svid_lifetime_.Set(svid_not_after == absl::InfinitePast()
                         ? 0
                         : absl::ToDoubleSeconds(svid_not_after - svid_not_before));
}

void OwnMetrics::CountRenewal(bool renewed) { (renewed ? renewed_ : not_renewed_).Increment(); }

}  // namespace capstan::process
