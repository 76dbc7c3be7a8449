#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_PLACEMENT_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_PLACEMENT_H_

#include <string>

#include "absl/time/time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/node_terms.h"
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
// What the Node says of the level, or its id, or that of its Cluster if no level is given; "" if it
// says nothing.
const std::string& NameOf(const NodeCapacity& node, capstan::scheduler::v1::Topology::Level level);
// `rack`, `NVLink domain`; `Cluster` if no level is given.
std::string LevelInWords(capstan::scheduler::v1::Topology::Level level);

// Position of the first of the requirements that the Node's labels do not meet; -1: none.
int FirstUnmet(const NodeCapacity& node, const NodeRequirements& requirements);
// The first of the Node's taints that the gang does not tolerate; null: none.
const capstan::type::v1::Taint* FirstUntolerated(const NodeCapacity& node, const GangRequest& gang);

// Whether the Node may take Tasks of the gang, as far as all of it asks for the same, capacity
// aside.
bool Admits(const NodeCapacity& node, const GangRequest& gang);
// The same of one group.
bool Admits(const NodeCapacity& node, const GangRequest& gang, int group);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_PLACEMENT_H_
