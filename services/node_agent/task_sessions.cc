#include "services/node_agent/task_sessions.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/rpc/session_client.h"
#include "libs/status/error.h"

namespace capstan::node_agent {

using session::TaskId;
using telemetry::v1::TaskSession;
using telemetry::v1::TaskSessionService;
using telemetry::v1::WatchTaskSessionsRequest;

TaskSessions::TaskSessions(Options options, std::shared_ptr<grpc::Channel> telemetry,
                           Strand* strand, Strand* files, const log::Logger* logger, Random random)
    : options_(std::move(options)),
      stub_(TaskSessionService::NewStub(std::move(telemetry))),
      strand_(strand),
      files_(files),
      logger_(logger),
      random_(random),
      reconnect_(strand_, &random_, [this] { Dial(); },
                 {.initial = absl::Milliseconds(200), .max = absl::Seconds(10)}) {}

TaskSessions::~TaskSessions() { Stop(); }

void TaskSessions::Stop() {
  if (stopped_) return;
  stopped_ = true;
  reconnect_.Stop();
  if (watch_ != nullptr) watch_->Cancel();
  watch_.reset();
  while (!sessions_.empty()) {
    End(sessions_.begin()->first, absl::UnavailableError("the Node's agent is stopping"));
  }
}

void TaskSessions::Dial() {
  if (stopped_) return;
  const std::weak_ptr<char> alive = alive_;
  rpc::SessionCallbacks<TaskSession> callbacks;
  callbacks.on_message = [this, alive](const TaskSession& session) {
    if (alive.expired() || stopped_) return;
    reconnect_.Succeeded();
    OnSession(session);
  };
  callbacks.on_closed = [this, alive](const absl::Status& why) {
    if (alive.expired() || stopped_) return;
    logger_->Debug("watch of task sessions ended", {{"cause", why}});
    watch_.reset();
    reconnect_.Lost();
  };
  watch_ = rpc::OpenStream(stub_.get(),
                           &TaskSessionService::StubInterface::async_interface::WatchTaskSessions,
                           WatchTaskSessionsRequest(), strand_, std::move(callbacks));
}

void TaskSessions::TaskRuns(const ShipLogs& task) { tasks_[task.id] = {task.job, task.folder}; }

void TaskSessions::TaskEnds(const TaskId& id) {
  if (tasks_.erase(id) == 0) return;
  std::vector<std::string> over;
  for (const auto& [name, open] : sessions_) {
    // A command dies with the Task by itself, and its end should still be told.
    if (open.task == id && open.session.has_ports()) over.push_back(name);
  }
  for (const std::string& name : over) {
    End(name, status::Error(absl::StatusCode::kAborted, "TASK_ENDED", "the Task has ended"));
  }
}

void TaskSessions::OnSession(const TaskSession& session) {
  const std::string& id = session.id();
  if (sessions_.count(id) > 0) return;
  Open& open = sessions_[id];
  open.session = session;
  open.task = TaskId::Of(session.task());
  const std::weak_ptr<char> alive = alive_;
  rpc::SessionCallbacks<Frame> callbacks;
  callbacks.on_message = [this, alive, id](Frame frame) {
    if (!alive.expired()) OnFrame(id, std::move(frame));
  };
  callbacks.on_closed = [this, alive, id](const absl::Status& why) {
    if (!alive.expired()) End(id, why);
  };
  open.stream = rpc::OpenSession(
      stub_.get(), &TaskSessionService::StubInterface::async_interface::AttachTaskSession, strand_,
      std::move(callbacks));
  Frame attach;
  attach.set_attach(id);
  open.stream->Send(std::move(attach)).IgnoreError();
}

void TaskSessions::OnFrame(const std::string& id, Frame frame) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  if (frame.has_attached()) return Begin(id);
  if (it->second.visit != nullptr) it->second.visit->Receive(std::move(frame));
}

void TaskSessions::Begin(const std::string& id) {
  Open& open = sessions_.at(id);
  if (open.visit != nullptr) return;
  const auto task = tasks_.find(open.task);
  // Telemetry has decided about the Job that the person named; that it is this Task's is ours to
  // see to.
  if (task == tasks_.end() || task->second.job != open.session.job()) {
    return End(id, status::Error(absl::StatusCode::kFailedPrecondition, "TASK_NOT_RUNNING",
                                 "the Task does not run on this Node"));
  }
  if (sessions_.size() > options_.most) {
    return End(id, status::Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_SESSIONS",
                                 "too many sessions on the Task's Node"));
  }
  TaskVisit::Callbacks callbacks;
  callbacks.send = [stream = open.stream](Frame frame) { return stream->Send(std::move(frame)); };
  callbacks.over = [this, alive = std::weak_ptr<char>(alive_), strand = strand_->remote(),
                    id](const absl::Status& why) {
    strand.Post([this, alive, id, why] {
      if (!alive.expired()) End(id, why);
    });
  };
  if (open.session.has_ports()) {
    open.visit = TaskVisit::ServePorts(open.session.ports(), std::move(callbacks));
    return;
  }
  auto visit = TaskVisit::StartCommand(options_.shim_command, task->second.folder,
                                       open.session.command(), std::move(callbacks));
  if (!visit.ok()) return End(id, visit.status());
  open.visit = *std::move(visit);
}

void TaskSessions::End(const std::string& id, const absl::Status& status) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  Open open = std::move(it->second);
  sessions_.erase(it);
  if (!status.ok() && (open.visit == nullptr || open.session.has_ports())) {
    // A client cannot send a status.
    Frame end;
    end.mutable_command_end()->set_exit_code(126);
    end.mutable_command_end()->set_failure(std::string(status.message()));
    open.stream->Send(std::move(end)).IgnoreError();
  }
  open.stream->Finish(absl::OkStatus());
  // Ending a command waits for its processes.
  if (open.visit != nullptr)
    files_->Post([visit = std::move(open.visit)]() mutable { visit.reset(); });
}

}  // namespace capstan::node_agent
