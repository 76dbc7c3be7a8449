// The ledger of what the platform did to Jobs of its own will, and what Queues bound it by.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_DISRUPTIONS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_DISRUPTIONS_H_

#include <string>

#include "absl/time/time.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

inline constexpr int kMaxDisruptions = 100;

// Whether a stop for this reason is one: neither asked for nor forced.
bool IsDisruption(capstan::type::v1::Stop::Reason reason);

// Enters it; the oldest leaves where there are too many.
void AddDisruption(capstan::type::v1::Stop::Reason reason, const std::string& beneficiary,
                   absl::Time now, rec::JobStateRecord* state);

// For how long yet the budget of its Queue lets it not be disrupted for another Job; 0: it may be.
absl::Duration ProtectedByBudget(const Model& model, const JobEntry& job, absl::Time now);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_DISRUPTIONS_H_
