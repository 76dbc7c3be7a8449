#ifndef CAPSTAN_SERVICES_TELEMETRY_CORE_SCRAPE_TARGETS_H_
#define CAPSTAN_SERVICES_TELEMETRY_CORE_SCRAPE_TARGETS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/auth/spiffe_id.h"
#include "libs/time/clock.h"
#include "proto/capstan/telemetry/v1/scrape_target.pb.h"
#include "services/telemetry/core/records.pb.h"

namespace capstan::telemetry {

inline constexpr size_t kMaxScrapeTargets = 100'000;

// Everything that is wrong with a report.
absl::Status CheckReport(const v1::ReportScrapeTargetRequest& request);

// The platform's processes and where their metrics are. Pure; one thread.
//
// A process has one entry, by its identity and instance. An entry outlives its process by
// `forget_after`, counted from the last report or, after a restart, from Load: long enough that an
// alert says that the process is down.
class ScrapeTargets {
 public:
  explicit ScrapeTargets(absl::Duration forget_after) : forget_after_(forget_after) {}

  // What was kept: counts as reported now. What is no entry of ours is left out.
  void Load(const core::ScrapeTargetList& kept, BootTime now);
  // Takes a checked report of `caller`, a service, executor or Node. True if the list has changed;
  // RESOURCE_EXHAUSTED if it is full.
  absl::StatusOr<bool> Report(const auth::SpiffeId& caller,
                              const v1::ReportScrapeTargetRequest& request, BootTime now);
  // Drops what has been silent for too long. True if the list has changed.
  bool Forget(BootTime now);

  // In the order of identity and instance.
  core::ScrapeTargetList List() const;
  size_t size() const { return targets_.size(); }

 private:
  struct Entry {
    std::string metrics_address;
    BootTime reported;
  };

  const absl::Duration forget_after_;
  // By path of the identity and instance.
  std::map<std::pair<std::string, std::string>, Entry> targets_;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_CORE_SCRAPE_TARGETS_H_
