#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_MIG_DEVICES_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_MIG_DEVICES_H_

#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/core/step.h"

namespace capstan::node_agent {

// MIG instances of this Node's GPUs: each a GPU instance with one compute instance that takes all of
// it. Methods do not block; callbacks run on the agent's strand. Calls take effect in order.
class MigDevices {
 public:
  template <typename T>
  using Callback = absl::AnyInvocable<void(absl::StatusOr<T>)>;
  using DoneCallback = absl::AnyInvocable<void(absl::Status)>;

  virtual ~MigDevices() = default;

  // Makes the instance at exactly the placement asked, or finds it made; its name is what
  // CUDA_VISIBLE_DEVICES takes, e.g. `MIG-<uuid>`. What overlaps, or leaves it no room, and is none
  // of the order's `others` is removed first: nobody uses it. UNAVAILABLE while the place of one of
  // `others` is in its way, whether that is made or not: its Task has yet to end, and removes it
  // then; or while the driver can't now. FAILED_PRECONDITION if there is no such GPU in MIG mode, or
  // none of such a profile or place, or it has a fault. Errors say what to do.
  virtual void Make(const MakeMigInstance& order, Callback<std::string> done) = 0;
  // OK if absent, also with its GPU. UNAVAILABLE while a process is on it.
  virtual void Remove(const capstan::type::v1::MigInstance& instance, DoneCallback done) = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_MIG_DEVICES_H_
