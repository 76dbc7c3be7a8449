#ifndef CAPSTAN_SERVICES_NODE_AGENT_SHIM_SHIM_H_
#define CAPSTAN_SERVICES_NODE_AGENT_SHIM_SHIM_H_

#include <string>

#include "libs/cgroup/cgroup.h"
#include "libs/time/clock.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"

namespace capstan::node_agent {

// Names in a Task's folder; see nodeagent/v1/shim.proto.
inline constexpr char kSpecFile[] = "spec.binpb";
inline constexpr char kControlFile[] = "control.binpb";
inline constexpr char kStatusFile[] = "status.binpb";
inline constexpr char kLockFile[] = "shim.lock";
inline constexpr char kKilledFile[] = "killed";
inline constexpr char kLogFolder[] = "log";
// Where the Task's private root is put together; empty for everyone else.
inline constexpr char kRootFolder[] = "root";

// The descriptor under which a shim inherits the lock of its folder from the agent that forks it.
inline constexpr int kLockFd = 3;

// The group's folders as the agent wrote them.
cgroup::Paths GroupOf(const capstan::nodeagent::v1::ShimSpec::Cgroup& group);

// Owns one Task from start to end: the whole life of a shim process. Reads the spec in `folder`,
// runs the Task, keeps its log, its deadline and its status, and returns the process's exit code
// once the end is recorded (0), or if there is nothing it may do (1): no spec, or a Task that was
// started before.
//
// The process must have one thread, and be its session's leader so that no terminal's signal
// reaches it. It stays small: no network, no gRPC.
int RunShim(const std::string& folder, const Clock& clock);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_SHIM_SHIM_H_
