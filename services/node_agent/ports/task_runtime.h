#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_RUNTIME_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_RUNTIME_H_

#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::node_agent {

// What the agent needs to know of the place made for a Task.
struct TaskPlace {
  // Task's own folder, `<data>/tasks/<job uid>/<generation>/<group>-<index>`, with `output/` (the
  // Task's, writable), `resume/`, `socket/` (mounted, survives the agent), `log/`.
  std::string folder;
  capstan::nodeagent::v1::ShimSpec::Cgroup cgroup;
};

// A Task's remains or a running Task, found after a restart of the agent.
struct FoundTask {
  capstan::type::v1::TaskKey key;
  // Absent fields stay unset: no spec means the shim was never forked.
  bool has_spec = false;
  capstan::nodeagent::v1::ShimStatus status;
  // True while the shim recorded in the status (pid and start ticks) is alive.
  bool shim_alive = false;
  // True when no process is left in the Task's cgroup.
  bool cgroup_empty = true;
};

// Runs Tasks under shims on this machine. Acts only; every decision and record is the agent core's.
// All calls are idempotent by key. Methods are called on the agent's strand and do not block; the
// callbacks run on it. Errors carry a reason.
class TaskRuntime {
 public:
  using DoneCallback = absl::AnyInvocable<void(absl::Status)>;
  using StatusCallback = absl::AnyInvocable<void(const capstan::type::v1::TaskKey& key,
                                                 const capstan::nodeagent::v1::ShimStatus& status)>;

  virtual ~TaskRuntime() = default;

  // Called once, before anything else: `on_status` runs at each change of a shim's status file, and
  // once when a shim is found dead without having recorded an end (then `end` is unset and
  // `shim_pid` is 0).
  virtual void SetStatusCallback(StatusCallback on_status) = 0;

  // Makes the Task's folder, owned by `unix_uid`, and its cgroup with the limits.
  virtual void MakePlace(const capstan::type::v1::TaskKey& key,
                         const capstan::type::v1::Resources& limits, int64_t unix_uid,
                         absl::AnyInvocable<void(absl::StatusOr<TaskPlace>)> done) = 0;

  // Writes the spec durably and forks the shim, detached from the agent. A spec that is already
  // there means the Task was started once: ALREADY_EXISTS, and nothing happens.
  virtual void Start(const capstan::nodeagent::v1::ShimSpec& spec, DoneCallback done) = 0;

  // Replaces the shim's control file.
  virtual void Control(const capstan::type::v1::TaskKey& key,
                       const capstan::nodeagent::v1::ShimControl& control, DoneCallback done) = 0;

  // Ends every process in the Task's cgroup, whatever the shim does, and answers once it is empty.
  virtual void Kill(const capstan::type::v1::TaskKey& key, DoneCallback done) = 0;

  // Every Task of which a folder or a cgroup exists; watches those that run.
  virtual void Discover(absl::AnyInvocable<void(absl::StatusOr<std::vector<FoundTask>>)> done) = 0;

  // Removes the cgroup and the folder. FAILED_PRECONDITION while a process is left.
  virtual void Remove(const capstan::type::v1::TaskKey& key, DoneCallback done) = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_RUNTIME_H_
