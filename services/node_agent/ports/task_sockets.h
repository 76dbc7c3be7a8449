#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_SOCKETS_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_SOCKETS_H_

#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "libs/session/task_id.h"
#include "services/node_agent/core/step.h"

namespace capstan::node_agent {

// The sockets that Tasks ask things of. Methods are called on the agent's strand and do not block.
class TaskSockets {
 public:
  // Answers one request with the committed manifest's digest, or why it was refused. Called once,
  // on any thread; destroyed uncalled it answers 503.
  using Answer = absl::AnyInvocable<void(absl::StatusOr<std::string> manifest_digest)>;
  // A peer of the Task asks that `directory` be committed as the checkpoint of `step`. On the
  // strand.
  using CheckpointCallback = absl::AnyInvocable<void(
      const session::TaskId& id, const std::string& directory, int64_t step, Answer answer)>;

  virtual ~TaskSockets() = default;

  // Once, before anything else.
  virtual void SetCheckpointCallback(CheckpointCallback on_checkpoint) = 0;
  // Serves `<folder>/socket/task.sock`, replacing what lies there; nothing if it is served already.
  virtual void Serve(const ServeSocket& order) = 0;
  // Ends connections and removes the socket.
  virtual void Close(const session::TaskId& id) = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_SOCKETS_H_
