#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_GPU_DEVICES_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_GPU_DEVICES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "services/node_agent/core/whole_gpu.h"

namespace capstan::node_agent {

// What Tasks may have of this Node's GPUs, as it is now. Methods do not block; callbacks run on the
// agent's strand. Errors say what to do: UNAVAILABLE if it may do later, FAILED_PRECONDITION if not
// before someone changes something.
class GpuDevices {
 public:
  template <typename T>
  using Callback = absl::AnyInvocable<void(absl::StatusOr<T>)>;

  virtual ~GpuDevices() = default;

  // Those that a Task may have as a whole, in the driver's order; what is left out is no error.
  virtual void List(Callback<std::vector<WholeGpu>> done) = 0;
  // The device files that the MIG instance takes, which stands on GPU `gpu`, by the driver's count,
  // and has the name `MIG-<uuid>`.
  virtual void FindMigFiles(int32_t gpu, const std::string& name,
                            Callback<capstan::nodeagent::v1::ShimSpec::Gpus> done) = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_GPU_DEVICES_H_
