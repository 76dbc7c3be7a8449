// When a Task must be dead.
#ifndef CAPSTAN_SERVICES_NODE_AGENT_CORE_DEADLINE_H_
#define CAPSTAN_SERVICES_NODE_AGENT_CORE_DEADLINE_H_

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/time/clock.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/core/records.pb.h"

namespace capstan::node_agent {

// fence_after of a launch; 15 min if it gives none.
absl::Duration FenceAfter(const capstan::type::v1::TaskLaunch& launch);

// Time between SIGTERM and SIGKILL when the deadline comes: the Job's stop_grace, but at most a
// quarter of fence_after, so that a Task with a long grace still has time to run.
absl::Duration FenceGrace(const capstan::type::v1::TaskLaunch& launch);

// Time left at the end of fence_after in which the kernel empties the cgroup: a tenth, at most 1 s.
absl::Duration KillMargin(const capstan::type::v1::TaskLaunch& launch);

// By when a Task is dead for want of confirmation, grace included; never later than confirmed_at +
// fence_after. Nullopt without a confirmation: the Task may not start.
absl::optional<BootTime> FenceDeadline(const capstan::type::v1::TaskLaunch& launch,
                                       absl::optional<BootTime> confirmed_at);

// By when a Task whose stop was acted on is dead. Nullopt without a stop.
absl::optional<BootTime> StopDeadline(const capstan::nodeagent::record::v1::Task& task);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_CORE_DEADLINE_H_
