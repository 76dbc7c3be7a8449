#ifndef CAPSTAN_SERVICES_NODE_AGENT_TASK_SESSIONS_H_
#define CAPSTAN_SERVICES_NODE_AGENT_TASK_SESSIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/channel.h"
#include "libs/log/log.h"
#include "libs/random/random.h"
#include "libs/rpc/backoff.h"
#include "libs/rpc/client_stream.h"
#include "libs/rpc/session.h"
#include "libs/session/task_id.h"
#include "libs/strand/strand.h"
#include "proto/capstan/telemetry/v1/task_session.grpc.pb.h"
#include "services/node_agent/adapters/task_visit.h"
#include "services/node_agent/core/step.h"

namespace capstan::node_agent {

// Carries out the task sessions that telemetry tells of (see telemetry/v1/task_session.proto):
// dials back to each, if it is for a Task that runs here and of the Job that was authorised. Keeps
// a watch open, with back-off. A session ends with its stream and with its Task. On the agent's
// strand.
class TaskSessions {
 public:
  struct Options {
    std::vector<std::string> shim_command;
    size_t most = 50;
  };

  // `files` runs what blocks. All must outlive it.
  TaskSessions(Options options, std::shared_ptr<grpc::Channel> telemetry, Strand* strand,
               Strand* files, const log::Logger* logger, Random random);
  ~TaskSessions();
  TaskSessions(const TaskSessions&) = delete;
  TaskSessions& operator=(const TaskSessions&) = delete;

  void Start() { reconnect_.Start(); }
  // Ends all sessions and the watch.
  void Stop();

  // A Task runs here; known until it ends. Level.
  void TaskRuns(const ShipLogs& task);
  void TaskEnds(const session::TaskId& id);

 private:
  using Frame = telemetry::v1::TaskSessionFrame;
  using Watch =
      rpc::StreamReader<telemetry::v1::WatchTaskSessionsRequest, telemetry::v1::TaskSession>;
  struct Running {
    std::string job;
    std::string folder;
  };
  struct Open {
    telemetry::v1::TaskSession session;
    session::TaskId task;
    std::shared_ptr<rpc::Session<Frame, Frame>> stream;
    std::unique_ptr<TaskVisit> visit;
  };

  void Dial();
  void OnSession(const telemetry::v1::TaskSession& session);
  void OnFrame(const std::string& id, Frame frame);
  void Begin(const std::string& id);
  // Ends the stream with `status` and what is done for it.
  void End(const std::string& id, const absl::Status& status);

  const Options options_;
  const std::unique_ptr<telemetry::v1::TaskSessionService::Stub> stub_;
  Strand* const strand_;
  Strand* const files_;
  const log::Logger* const logger_;
  Random random_;
  rpc::Reconnect reconnect_;
  std::shared_ptr<Watch> watch_;
  bool stopped_ = false;
  std::map<session::TaskId, Running> tasks_;
  std::map<std::string, Open> sessions_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_TASK_SESSIONS_H_
