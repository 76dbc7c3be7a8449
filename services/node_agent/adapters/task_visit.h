#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_TASK_VISIT_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_TASK_VISIT_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "libs/safe_path/safe_path.h"
#include "libs/task_session/fd_channels.h"
#include "proto/capstan/telemetry/v1/task_session.pb.h"

namespace capstan::node_agent {

// What a task session does on the Node: one command beside a running Task, or connections to its
// ports. Thread-safe. Its destructor ends the command and all that it has left behind, and waits
// for that: not to be called on a strand.
class TaskVisit {
 public:
  // Called on threads of the visit's own; must not destroy it.
  struct Callbacks {
    std::function<absl::Status(telemetry::v1::TaskSessionFrame)> send = {};
    // The visit is over: the last frame was sent, or the person broke the rules.
    std::function<void(const absl::Status&)> over = {};
  };

  // `shim_command` is what runs a shim when its arguments are appended; `folder` the Task's.
  static absl::StatusOr<std::unique_ptr<TaskVisit>> StartCommand(
      const std::vector<std::string>& shim_command, const std::string& folder,
      const telemetry::v1::TaskCommand& command, Callbacks callbacks);
  // Connects to 127.0.0.1: Tasks share their Node's network.
  static std::unique_ptr<TaskVisit> ServePorts(const telemetry::v1::TaskPorts& ports,
                                               Callbacks callbacks);
  ~TaskVisit();
  TaskVisit(const TaskVisit&) = delete;
  TaskVisit& operator=(const TaskVisit&) = delete;

  // A frame of the person.
  void Receive(telemetry::v1::TaskSessionFrame frame);

 private:
  explicit TaskVisit(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}

  absl::Status Spawn(const std::vector<std::string>& shim_command, const std::string& folder,
                     const telemetry::v1::TaskCommand& command);
  task_session::FdChannels::Callbacks ChannelCallbacks();
  void AwaitEnd();
  void OnEof(int32_t channel);
  void MaybeFinish();

  const Callbacks callbacks_;
  pid_t pid_ = -1;
  // The agent's end; see shim/visit.h.
  UniqueFd talk_;
  UniqueFd terminal_;
  std::unique_ptr<task_session::FdChannels> channels_;
  std::thread waiter_;
  absl::Mutex mutex_;
  // Of standard output and error, those that may still bring something.
  int open_outputs_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  telemetry::v1::CommandEnd end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_TASK_VISIT_H_
