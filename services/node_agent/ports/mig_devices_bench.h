#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_MIG_DEVICES_BENCH_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_MIG_DEVICES_BENCH_H_

#include "services/node_agent/ports/mig_devices.h"

namespace capstan::node_agent {

// A machine for MigDevices under test: GPUs 0 and 1 are each an H100-80GB in MIG mode, on which
// nothing stands, GPU 2 is one that is not in MIG mode, and there is no GPU 3.
class MigDevicesBench {
 public:
  virtual ~MigDevicesBench() = default;

  virtual MigDevices& devices() = 0;
  // Runs until all that was asked is answered.
  virtual void Run() = 0;
  // Another life of the agent: what stands on the GPUs stays.
  virtual void RestartAgent() = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_MIG_DEVICES_BENCH_H_
