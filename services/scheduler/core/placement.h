#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_PLACEMENT_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_PLACEMENT_H_

#include <string>

#include "absl/time/time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/placer.h"

namespace capstan::scheduler {

// What a gang is taken to spend in PREPARE, where its end is foreseen.
inline constexpr absl::Duration kPrepareAllowance = absl::Minutes(1);

// From START of a generation until its last Task has ended, at most: its time limit and the grace
// of the stop. Infinite without a limit.
absl::Duration LongestRun(const capstan::scheduler::v1::JobSpec& spec);

// The domain of the level that the Node is in, with the Cluster it is in; the Cluster if no level
// is given; "" if the Node is in none.
std::string DomainOf(const NodeCapacity& node, capstan::scheduler::v1::Topology::Level level);
// `rack`, `NVLink domain`; `Cluster` if no level is given.
std::string LevelInWords(capstan::scheduler::v1::Topology::Level level);

// Whether the Node may take Tasks of the gang, capacity aside.
bool Admits(const NodeCapacity& node, const GangRequest& gang);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_PLACEMENT_H_
