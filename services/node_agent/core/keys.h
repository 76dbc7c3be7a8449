// Keys of the node agent's store, as docs/store.md lists them.
#ifndef CAPSTAN_SERVICES_NODE_AGENT_CORE_KEYS_H_
#define CAPSTAN_SERVICES_NODE_AGENT_CORE_KEYS_H_

#include <string>

#include "libs/session/task_id.h"

namespace capstan::node_agent {

inline constexpr char kPrefix[] = "/capstan/node_agent/v1/";
inline constexpr char kSelfKey[] = "/capstan/node_agent/v1/self";
inline constexpr char kConfirmedKey[] = "/capstan/node_agent/v1/confirmed";
inline constexpr char kOrderPrefix[] = "/capstan/node_agent/v1/orders/";
inline constexpr char kTaskPrefix[] = "/capstan/node_agent/v1/tasks/";
// Owned by the log shipper, not by the core.
inline constexpr char kCursorPrefix[] = "/capstan/node_agent/v1/cursors/";

inline std::string OrderKey(const session::TaskId& id) { return kOrderPrefix + id.Path(); }
inline std::string TaskKeyOf(const session::TaskId& id) { return kTaskPrefix + id.Path(); }
inline std::string CursorKey(const session::TaskId& id) { return kCursorPrefix + id.Path(); }

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_CORE_KEYS_H_
