#ifndef CAPSTAN_SERVICES_SCHEDULER_RUN_H_
#define CAPSTAN_SERVICES_SCHEDULER_RUN_H_

#include "absl/status/status.h"
#include "libs/process/main.h"
#include "libs/process/process.h"
#include "libs/time/clock.h"
#include "proto/capstan/config/v1/scheduler.pb.h"

namespace capstan::scheduler {

// Whether the configuration makes sense as a whole. INVALID_ARGUMENT with everything that is wrong,
// by its field's path.
absl::Status CheckConfig(const config::v1::SchedulerConfig& config);

// The process of this service: starts, serves until a signal, and drains. `config` has passed
// CheckConfig. Must be called before any thread is made. UNAUTHENTICATED with reason NO_IDENTITY if
// it needs a join token.
absl::Status Run(const config::v1::SchedulerConfig& config, const process::StartOptions& options,
                 const Clock* clock);

// The two as a program.
process::Program ThisProgram();

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_RUN_H_
