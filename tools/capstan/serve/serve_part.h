// The parts of a platform as processes: each reads its place in the data folder, runs until a
// signal, and drains. Errors with reason NO_IDENTITY are the supervisor's to mend.
#ifndef CAPSTAN_TOOLS_CAPSTAN_SERVE_SERVE_PART_H_
#define CAPSTAN_TOOLS_CAPSTAN_SERVE_SERVE_PART_H_

#include "absl/status/status.h"
#include "libs/time/clock.h"
#include "tools/capstan/serve/part_context.h"

namespace capstan::serve {

absl::Status ServeCredentials(const ServeOptions& options, const Clock* clock);
absl::Status ServeScheduler(const ServeOptions& options, const Clock* clock);
absl::Status ServeTelemetry(const ServeOptions& options, const Clock* clock);
absl::Status ServeExecutor(const ServeOptions& options, const Clock* clock);
absl::Status ServeNodeAgent(const ServeOptions& options, const Clock* clock);
absl::Status ServeDataLoader(const ServeOptions& options, const Clock* clock);
absl::Status ServeClusterManager(const ServeOptions& options, const Clock* clock);

}  // namespace capstan::serve

#endif  // CAPSTAN_TOOLS_CAPSTAN_SERVE_SERVE_PART_H_
