#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_NVML_MIG_DEVICES_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_NVML_MIG_DEVICES_H_

#include <memory>
#include <string>

#include "libs/gpu/nvml_library.h"
#include "libs/strand/strand.h"
#include "services/node_agent/ports/mig_devices.h"

namespace capstan::node_agent {

// MIG instances on this machine's NVIDIA GPUs, through NVML, which takes root. Serves GPUs in MIG
// mode whose model has a table in libs/mig by which their driver places instances; never changes a
// GPU's mode. Nothing is remembered: each call looks at what stands, so that instances outlive the
// agent, and people may remove them.
//
// The driver is called on `driver` alone, the first time at the first call, and may hang there: then
// nothing is answered any more, and the strand goes on. A library that can't be opened is tried
// again with each call. Both strands must outlive this.
std::unique_ptr<MigDevices> MakeNvmlMigDevices(Strand* strand, Strand* driver,
                                               std::string library = gpu::kNvmlLibrary);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_NVML_MIG_DEVICES_H_
