#ifndef CAPSTAN_SERVICES_SCHEDULER_REPARTITION_CONFIG_H_
#define CAPSTAN_SERVICES_SCHEDULER_REPARTITION_CONFIG_H_

#include "absl/strings/string_view.h"
#include "libs/status/error.h"
#include "proto/capstan/config/v1/scheduler.pb.h"

namespace capstan::scheduler {

// Whether this makes sense; adds what it finds to `errors`. `field` is the path of the message.
void CheckMigRepartition(absl::string_view field, const config::v1::MigRepartition& config,
                         status::FieldErrors* errors);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_REPARTITION_CONFIG_H_
