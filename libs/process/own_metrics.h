#ifndef CAPSTAN_LIBS_PROCESS_OWN_METRICS_H_
#define CAPSTAN_LIBS_PROCESS_OWN_METRICS_H_

#include "absl/time/time.h"
#include "libs/metrics/registry.h"
#include "libs/time/clock.h"

namespace capstan::process {

// What every process says about itself, whatever it serves: `capstan_process_…`. For one thread
// after another.
class OwnMetrics {
 public:
  // The clock and the registry must outlive it.
  OwnMetrics(const Clock* clock, metrics::Registry* registry);

  // Looks anew; before each scrape. With the life of the SVID in use, which is empty (both
  // InfinitePast) while there is none.
  void Update(absl::Time svid_not_before, absl::Time svid_not_after);
  // After each try to renew the SVID.
  void CountRenewal(bool renewed);

 private:
  metrics::Gauge resident_bytes_;
  metrics::Gauge open_files_;
  metrics::Counter cpu_seconds_;
  metrics::Gauge svid_expiry_;
  metrics::Gauge svid_lifetime_;
  metrics::Counter renewed_;
  metrics::Counter not_renewed_;
};

}  // namespace capstan::process

#endif  // CAPSTAN_LIBS_PROCESS_OWN_METRICS_H_
