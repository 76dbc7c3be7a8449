// What ending a generation costs in work: for metrics.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_LOST_WORK_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_LOST_WORK_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/scheduler/core/job_entry.h"

namespace capstan::scheduler {

// Why a generation may lose work: a small closed set.
std::vector<absl::string_view> LostWorkReasons();

// Why this one did, of those; empty where its end was its own, or asked for. It is over, and its
// Job was neither done nor cancelled.
absl::string_view WhyWorkIsLost(const Gang& gang);

// Accelerators of the generation (of one in MIG mode the part of its memory) times what it ran
// since the last checkpoint that there can have been: all of `ran` of a Job that says no period.
absl::Duration LostAcceleratorTime(const JobEntry& job, absl::Duration ran);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_LOST_WORK_H_
