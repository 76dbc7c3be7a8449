#ifndef CAPSTAN_SERVICES_TELEMETRY_TARGET_INVENTORY_H_
#define CAPSTAN_SERVICES_TELEMETRY_TARGET_INVENTORY_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "libs/auth/spiffe_id.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/strand/strand.h"
#include "proto/capstan/telemetry/v1/scrape_target.pb.h"
#include "services/telemetry/core/records.pb.h"
#include "services/telemetry/core/scrape_targets.h"

namespace capstan::telemetry {

// What there is to scrape, kept in a file, so that the list is whole right after a restart. An
// answered report is in the list at once and in the file five seconds later: every process says it
// again anyway. Thread-safe.
class TargetInventory {
 public:
  struct Options {
    // The file; made at the first write, replaced as a whole.
    std::string path;
    absl::Duration forget_after = absl::Hours(1);
    // Where loopback addresses mean this process' own machine.
    std::string loopback_network;
  };

  // Reads the file. DATA_LOSS if it cannot be parsed. `strand` is one on which files may be
  // written; all must outlive the inventory, which is destroyed off the strand while that runs.
  static absl::StatusOr<std::unique_ptr<TargetInventory>> Open(Options options, Strand* strand,
                                                               const log::Logger* logger,
                                                               metrics::Registry* registry);
  // Writes what has changed.
  ~TargetInventory();

  // Takes a report that CheckReport has passed. FAILED_PRECONDITION (METRICS_UNREACHABLE) for a
  // loopback address of another machine.
  absl::Status Report(const auth::SpiffeId& caller, const v1::ReportScrapeTargetRequest& request);
  core::ScrapeTargetList List() const;

 private:
  TargetInventory(Options options, Strand* strand, const log::Logger* logger,
                  metrics::Registry* registry);
  // Forgets, writes, and arms the next look.
  void Look();
  // Writes the list if it has changed.
  void Write();

  const Options options_;
  Strand* const strand_;
  const log::Logger* const logger_;
  metrics::Gauge count_;
  metrics::Counter refused_;
  mutable absl::Mutex mutex_;
  ScrapeTargets targets_ ABSL_GUARDED_BY(mutex_);
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;
  // On the strand.
  Strand::TimerId timer_ = 0;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_TARGET_INVENTORY_H_
