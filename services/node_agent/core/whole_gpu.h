#ifndef CAPSTAN_SERVICES_NODE_AGENT_CORE_WHOLE_GPU_H_
#define CAPSTAN_SERVICES_NODE_AGENT_CORE_WHOLE_GPU_H_

#include <cstdint>
#include <string>

#include "absl/types/optional.h"

namespace capstan::node_agent {

// A GPU of this Node that a Task may have as a whole: without a fault, and not in MIG mode.
struct WholeGpu {
  std::string uuid;
  // As which it counts, e.g. `nvidia.com/h100-80gb`.
  std::string resource;
  // N of `/dev/nvidiaN`; absent if the driver doesn't say.
  absl::optional<int32_t> minor = {};

  friend bool operator==(const WholeGpu&, const WholeGpu&) = default;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_CORE_WHOLE_GPU_H_
