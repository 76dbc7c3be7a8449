#ifndef CAPSTAN_SERVICES_NODE_AGENT_CORE_PORTS_BOOK_H_
#define CAPSTAN_SERVICES_NODE_AGENT_CORE_PORTS_BOOK_H_

#include <cstdint>
#include <map>
#include <vector>

#include "libs/session/task_id.h"

namespace capstan::node_agent {

// Which ports of the agent's range are reserved for which Task. What others on the machine use is
// found out by a test bind, not here.
class PortsBook {
 public:
  // Ports from [first, last] that are not in the kernel's ip_local_port_range [local_low,
  // local_high].
  PortsBook(int32_t first, int32_t last, int32_t local_low, int32_t local_high)
      : first_(first), last_(last), local_low_(local_low), local_high_(local_high), next_(first) {}

  // Reserves `count` ports for a Task, going round the range so that a port rests before it is used
  // again. Empty if there are not that many left.
  std::vector<int32_t> Pick(const session::TaskId& id, int count);
  // Marks a port as the Task's own, from its record.
  void Take(const session::TaskId& id, int32_t port);
  void Release(const session::TaskId& id);

 private:
  bool Usable(int32_t port) const;

  int32_t first_;
  int32_t last_;
  int32_t local_low_;
  int32_t local_high_;
  int32_t next_;
  std::map<int32_t, session::TaskId> taken_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_CORE_PORTS_BOOK_H_
