// What this machine gives when nothing of Capstan's is in the way.
#ifndef CAPSTAN_INTEGRATION_BENCH_MACHINE_LIMITS_H_
#define CAPSTAN_INTEGRATION_BENCH_MACHINE_LIMITS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/time/clock.h"

namespace capstan::bench {

// Overwrites 4 KiB of a file in `folder` and syncs them, over and over: how often a second the
// disk says that something is durable.
absl::StatusOr<double> SyncsPerSecond(const Clock* clock, const std::string& folder,
                                      absl::Duration time);
// Writes a file of so many MB (10^6 bytes) in `folder`, syncing every 4 MiB.
absl::StatusOr<double> SyncedMegabytesPerSecond(const Clock* clock, const std::string& folder,
                                                int64_t megabytes);
// P-256 signatures over a certificate's worth of bytes a second, on one core.
absl::StatusOr<double> SignaturesPerSecond(const Clock* clock, absl::Duration time);
// From the start of a program to its end.
absl::StatusOr<absl::Duration> RunToEnd(const Clock* clock, const std::vector<std::string>& argv,
                                        const std::vector<std::string>& environment);
int Cores();

}  // namespace capstan::bench

#endif  // CAPSTAN_INTEGRATION_BENCH_MACHINE_LIMITS_H_
