#ifndef CAPSTAN_SERVICES_NODE_AGENT_CORE_GPU_BOOK_H_
#define CAPSTAN_SERVICES_NODE_AGENT_CORE_GPU_BOOK_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/session/task_id.h"
#include "services/node_agent/core/whole_gpu.h"

namespace capstan::node_agent {

// Which whole GPUs of the Node which Task has. A GPU is one Task's from when it is picked, or taken,
// until that Task's are released, whether the driver lists it in between or not.
class GpuBook {
 public:
  // How many of each name a Task wants.
  using Wanted = std::map<std::string, int64_t>;

  // Gives the Task the first that nobody has of those found, which are in the driver's order; what
  // it had before is freed. In that order, all or none. FAILED_PRECONDITION, reason TOO_FEW_GPUS, if
  // not as many are found; UNAVAILABLE, reason GPU_TAKEN, while other Tasks have too many of them.
  absl::StatusOr<std::vector<WholeGpu>> Pick(const session::TaskId& id, const Wanted& wanted,
                                             const std::vector<WholeGpu>& found);
  // Marks a GPU as the Task's own, from its record.
  void Take(const session::TaskId& id, const std::string& uuid);
  void Release(const session::TaskId& id);

 private:
  // By uuid.
  std::map<std::string, session::TaskId> taken_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_CORE_GPU_BOOK_H_
