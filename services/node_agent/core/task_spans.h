// The spans of a Task on its Node, children of the executor's order:
//
//   task.prepare  data, place, identity, ports
//   task.start    from START to the shim's first word
//   task.run      while the Task runs; what the Task itself records is a child of it
//   task.finish   what is left of it is ended, its Output committed
#ifndef CAPSTAN_SERVICES_NODE_AGENT_CORE_TASK_SPANS_H_
#define CAPSTAN_SERVICES_NODE_AGENT_CORE_TASK_SPANS_H_

#include "absl/types/optional.h"
#include "libs/session/task_id.h"
#include "libs/trace/context.h"
#include "libs/trace/span.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/core/records.pb.h"

namespace capstan::node_agent {

// The span of a stage; absl::nullopt if the order belongs to no trace or the stage has no span.
// Follows from Task and stage alone.
absl::optional<trace::Context> StageTrace(const session::TaskId& id,
                                          const capstan::type::v1::DesiredTask& order,
                                          capstan::nodeagent::record::v1::Task::Stage stage);

// The same, with everything but its times; absl::nullopt also if it is not sampled.
absl::optional<trace::Span> StageSpan(const session::TaskId& id,
                                      const capstan::type::v1::DesiredTask& order,
                                      capstan::nodeagent::record::v1::Task::Stage stage);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_CORE_TASK_SPANS_H_
