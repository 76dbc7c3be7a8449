// As what a Node offers the GPUs of its machine. Pure.
#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_FOUND_GPUS_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_FOUND_GPUS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libs/gpu/device_inventory.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/core/whole_gpu.h"

namespace capstan::node_agent {

struct FoundGpus {
  // Whole GPUs by name, `nvidia.com/h100-80gb` (libs/gpu/gpu_model.h).
  std::map<std::string, int64_t> accelerators = {};
  // The same ones by themselves, in the driver's order.
  std::vector<WholeGpu> whole_gpus = {};
  // Those in MIG mode, in the driver's order.
  std::vector<capstan::type::v1::MigGpu> mig_gpus = {};
  // A sentence for each GPU that is not offered: which, and why.
  std::vector<std::string> left_out = {};
};

// Left out is a GPU with a fault, one that doesn't say what it is, and one in MIG mode of a model
// without a table in libs/mig, or whose driver places instances otherwise than the table says: what
// the scheduler would choose there could not be made.
FoundGpus OfferGpus(const std::vector<gpu::Gpu>& gpus);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_FOUND_GPUS_H_
