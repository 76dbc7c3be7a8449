#ifndef CAPSTAN_SERVICES_NODE_AGENT_SHIM_TASK_PROCESS_H_
#define CAPSTAN_SERVICES_NODE_AGENT_SHIM_TASK_PROCESS_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "libs/cgroup/cgroup.h"
#include "libs/safe_path/safe_path.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "services/node_agent/shim/task_init.h"

namespace capstan::node_agent {

// The shim's hold on its Task's init: descriptors to watch, words to say. Forked on the shim's only
// thread, whose death ends the Task.
class TaskProcess {
 public:
  // Forks init into new namespaces and the group; it waits for StartProgram. `root` is an empty
  // folder.
  static absl::StatusOr<TaskProcess> Fork(const capstan::nodeagent::v1::ShimSpec& spec,
                                          const cgroup::Paths& group, const std::string& root);

  pid_t pid() const { return pid_; }
  // Polls POLLIN when init has ended.
  int process_fd() const { return process_.get(); }
  // Poll POLLIN; non-blocking.
  int report_fd() const { return reports_.get(); }
  int out_fd() const { return out_.get(); }
  int err_fd() const { return err_.get(); }

  // The next report, if there is one.
  absl::optional<InitReport> ReadReport();
  // Lets init execute the program. Once.
  void StartProgram();
  // Ends an init that still waits.
  void Abandon() { words_.Reset(-1); }
  // SIGTERM to the program's process group, by way of init.
  void Terminate();
  // SIGKILL to init, and by that to its PID namespace.
  void KillInit();
  // Reaps init if it has ended; true then, and afterwards.
  bool Reap();

 private:
  pid_t pid_ = 0;
  bool reaped_ = false;
  UniqueFd process_;
  UniqueFd words_;
  UniqueFd reports_;
  UniqueFd out_;
  UniqueFd err_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_SHIM_TASK_PROCESS_H_
