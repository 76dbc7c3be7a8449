#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_WORKLOAD_API_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_WORKLOAD_API_H_

#include "libs/session/task_id.h"
#include "services/node_agent/core/step.h"

namespace capstan::node_agent {

// The SPIFFE Workload API for the Tasks of this Node. Methods are called on the agent's strand and
// do not block.
class WorkloadApi {
 public:
  virtual ~WorkloadApi() = default;

  // From now on processes of the Task get its identity; nothing changes if they do already.
  virtual void Serve(const KeepIdentity& order) = 0;
  // The files of the Task's identity have been replaced: it is told.
  virtual void Renewed(const session::TaskId& id) = 0;
  // The Task's calls end, and its processes are strangers.
  virtual void Close(const session::TaskId& id) = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_WORKLOAD_API_H_
