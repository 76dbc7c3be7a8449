#ifndef CAPSTAN_SERVICES_NODE_AGENT_TASK_DEVICE_LOOK_H_
#define CAPSTAN_SERVICES_NODE_AGENT_TASK_DEVICE_LOOK_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "libs/gpu/device_reader.h"
#include "services/node_agent/usage_sampler.h"

namespace capstan::node_agent {

// Says which Tasks have processes on which devices: the driver names processes, a Task's are those
// in its cgroup. `open` is called at the first look, on the thread that looks, since it too may
// hang with the driver; if it fails no Task has devices, until the agent is started anew.
UsageSampler::DeviceLook MakeTaskDeviceLook(
    std::function<absl::StatusOr<std::unique_ptr<gpu::DeviceReader>>()> open);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_TASK_DEVICE_LOOK_H_
