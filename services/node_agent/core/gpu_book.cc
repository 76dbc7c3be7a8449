#include "services/node_agent/core/gpu_book.h"

#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/status/error.h"

namespace capstan::node_agent {

absl::StatusOr<std::vector<WholeGpu>> GpuBook::Pick(const session::TaskId& id, const Wanted& wanted,
                                                    const std::vector<WholeGpu>& found) {
  Release(id);
  std::vector<WholeGpu> picked;
  Wanted there;
  Wanted missing = wanted;
  for (const WholeGpu& gpu : found) {
    const auto of = missing.find(gpu.resource);
    if (of == missing.end()) continue;
    ++there[gpu.resource];
    if (of->second <= 0 || taken_.count(gpu.uuid) != 0) continue;
    --of->second;
    picked.push_back(gpu);
  }
  for (const auto& [resource, count] : wanted) {
    if (there[resource] >= count) continue;
    return status::Error(
        absl::StatusCode::kFailedPrecondition, "TOO_FEW_GPUS",
        absl::StrCat("the Node has ", there[resource], " ", resource, " without a fault; wanted ",
                     count, "; the agent's log says what is left out, and why"));
  }
  for (const auto& [resource, count] : missing) {
    if (count <= 0) continue;
    return status::Error(
        absl::StatusCode::kUnavailable, "GPU_TAKEN",
        absl::StrCat("other Tasks still have ", resource, " of which this one wants ", count,
                     " more; they are waited for"));
  }
  for (const WholeGpu& gpu : picked) Take(id, gpu.uuid);
  return picked;
}

void GpuBook::Take(const session::TaskId& id, const std::string& uuid) {
  taken_.insert_or_assign(uuid, id);
}

void GpuBook::Release(const session::TaskId& id) {
  for (auto it = taken_.begin(); it != taken_.end();) {
    it = it->second == id ? taken_.erase(it) : std::next(it);
  }
}

}  // namespace capstan::node_agent
