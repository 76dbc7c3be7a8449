#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_BEAST_TASK_SOCKETS_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_BEAST_TASK_SOCKETS_H_

#include <memory>

#include "libs/strand/strand.h"
#include "services/node_agent/ports/task_sockets.h"

namespace capstan::node_agent {

// HTTP/1.1 on Unix sockets, as docs/task_contract.md says, on a thread of its own. Bounded: 16
// connections a Task, 8 KiB of request, 60 s for one to arrive; one request at a time on a
// connection. A peer is admitted if the kernel says that it has the Job's uid (where Jobs have one)
// and that it is in the Task's cgroup (where there is one).
std::unique_ptr<TaskSockets> MakeBeastTaskSockets(Strand* strand);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_BEAST_TASK_SOCKETS_H_
