#ifndef CAPSTAN_SERVICES_NODE_AGENT_TASK_RECORD_H_
#define CAPSTAN_SERVICES_NODE_AGENT_TASK_RECORD_H_

#include <cstdint>
#include <string>

#include "libs/session/task_id.h"
#include "proto/capstan/telemetry/v1/stream.pb.h"

namespace capstan::node_agent {

// A record about a Task without payload: its key, its attributes, and who says it. `producer` is
// the Node's, `<cluster>/<node>`.
capstan::telemetry::v1::Record MakeTaskRecord(const session::TaskId& id, int32_t rank,
                                              const std::string& producer, const char* kind,
                                              int64_t sequence);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_TASK_RECORD_H_
