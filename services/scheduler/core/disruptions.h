// The ledger of what the platform did to Jobs of its own will, and what Queues bound it by.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_DISRUPTIONS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_DISRUPTIONS_H_

#include <string>

#include "absl/time/time.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

inline constexpr int kMaxDisruptions = 100;

// The reason of a Job whose gang was stopped to stand elsewhere, and of such a disruption.
inline constexpr char kRepartitioned[] = "REPARTITIONED";

// Whether a stop for this reason is one: neither asked for nor forced.
bool IsDisruption(capstan::type::v1::Stop::Reason reason);

// Enters it, beneficiary and need as in the API; the oldest leaves where there are too many.
void AddDisruption(capstan::type::v1::Stop::Reason reason, const std::string& beneficiary,
                   const std::string& need, absl::Time now, rec::JobStateRecord* state);
// The same by name: kRepartitioned is no reason of a Stop.
void AddDisruption(const std::string& reason, const std::string& beneficiary,
                   const std::string& need, absl::Time now, rec::JobStateRecord* state);

// How long a Job of its Queue must run before it may be disrupted for another; `otherwise` where no
// Queue says anything.
absl::Duration MinRuntimeOf(const Model& model, const JobEntry& job, absl::Duration otherwise);

// For how long yet the budget of its Queue lets it not be disrupted for another Job; 0: it may be.
absl::Duration ProtectedByBudget(const Model& model, const JobEntry& job, absl::Time now);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_DISRUPTIONS_H_
