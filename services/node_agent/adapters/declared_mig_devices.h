#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_DECLARED_MIG_DEVICES_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_DECLARED_MIG_DEVICES_H_

#include <memory>
#include <vector>

#include "libs/strand/strand.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/ports/mig_devices.h"

namespace capstan::node_agent {

// Of GPUs that are only said to be there, as accelerators are: makes nothing, and gives an instance
// a name that tells where it would be, `MIG-GPU-0/4/3g.40gb`.
std::unique_ptr<MigDevices> MakeDeclaredMigDevices(std::vector<capstan::type::v1::MigGpu> gpus,
                                                   Strand* strand);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_DECLARED_MIG_DEVICES_H_
