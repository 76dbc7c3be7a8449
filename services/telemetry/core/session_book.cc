#include "services/telemetry/core/session_book.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/resource/name.h"
#include "libs/session/task_id.h"
#include "libs/status/error.h"

namespace capstan::telemetry {

using v1::TaskSession;
using v1::TaskSessionFrame;

namespace {

constexpr int kMostWords = 1000;
constexpr size_t kMostCommandBytes = 64 << 10;
constexpr int kMostPorts = 32;
constexpr int kMostTerminalSide = 10'000;

void CheckCommand(const v1::TaskCommand& command, status::FieldErrors* errors) {
  size_t bytes = 0;
  for (const std::string& word : command.argv()) {
    bytes += word.size() + 1;
    if (word.find('\0') != std::string::npos) {
      errors->Add("session.command.argv", "a word has a byte 0 in it; expected words without one");
    }
  }
  if (command.argv_size() < 1 || command.argv_size() > kMostWords || bytes > kMostCommandBytes ||
      command.argv(0).empty()) {
    errors->Add("session.command.argv",
                absl::StrCat("has ", command.argv_size(), " words of ", bytes,
                             " bytes; expected 1 to 1,000 of at most 64 KiB, the first a program"));
  }
  const auto side = [errors](const char* name, int value) {
    if (value >= 1 && value <= kMostTerminalSide) return;
    errors->Add(absl::StrCat("session.command.terminal.", name),
                absl::StrCat("is ", value, "; expected 1 to 10,000"));
  };
  if (!command.has_terminal()) return;
  side("columns", command.terminal().columns());
  side("rows", command.terminal().rows());
}

void CheckPorts(const v1::TaskPorts& ports, status::FieldErrors* errors) {
  const bool good = std::all_of(ports.ports().begin(), ports.ports().end(),
                                [](int port) { return port >= 1 && port <= 65535; });
  if (!good || ports.ports_size() < 1 || ports.ports_size() > kMostPorts) {
    errors->Add("session.ports.ports", "expected 1 to 32 numbers from 1 to 65535");
  }
}

absl::Status NotYours() {
  return status::Error(absl::StatusCode::kPermissionDenied, "NO_SUCH_SESSION",
                       "there is no such session that you may attach to");
}

absl::Status BadFrame(absl::string_view what) {
  return status::Error(absl::StatusCode::kInvalidArgument, "BAD_FRAME", what);
}

// What each end may send; the channels' own rules are the other end's to check.
bool MaySend(SessionEnd from, const TaskSession& session, const TaskSessionFrame& frame) {
  switch (frame.frame_case()) {
    case TaskSessionFrame::kData:
    case TaskSessionFrame::kEnd:
    case TaskSessionFrame::kCredit:
    case TaskSessionFrame::kFailure:
      return true;
    case TaskSessionFrame::kOpen:
      return from == SessionEnd::kPerson && session.has_ports() &&
             std::find(session.ports().ports().begin(), session.ports().ports().end(),
                       frame.open().port()) != session.ports().ports().end();
    case TaskSessionFrame::kResize:
      return from == SessionEnd::kPerson && session.command().has_terminal();
    case TaskSessionFrame::kCommandEnd:
      return from == SessionEnd::kNode;
    default:
      return false;
  }
}

}  // namespace

absl::Status CheckSession(const v1::OpenTaskSessionRequest& request) {
  const TaskSession& session = request.session();
  status::FieldErrors errors;
  if (!resource::JobName::Parse(session.job()).ok()) {
    errors.Add("session.job", "expected `projects/{p}/jobs/{j}`");
  }
  if (!session::CheckTaskKey(session.task()).ok()) {
    errors.Add("session.task", "expected job_uid, generation, group and index of a Task");
  }
  if (!resource::NodeName::Parse(session.node()).ok()) {
    errors.Add("session.node", "expected `clusters/{c}/nodes/{n}`");
  }
  if (session.has_command()) {
    CheckCommand(session.command(), &errors);
  } else if (session.has_ports()) {
    CheckPorts(session.ports(), &errors);
  } else {
    errors.Add("session", "expected a command or ports");
  }
  return errors.ToStatus();
}

std::string NodeNameOf(const auth::SpiffeId& node) {
  return absl::StrCat("clusters/", node.cluster, "/nodes/", node.node);
}

absl::StatusOr<TaskSession> SessionBook::Open(const TaskSession& wanted, const std::string& id,
                                              const std::string& principal, Now now) {
  size_t own = 0;
  for (const auto& [open, entry] : sessions_) own += entry.session.principal() == principal ? 1 : 0;
  if (sessions_.size() >= limits_.sessions || own >= limits_.of_one_principal) {
    return status::Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_SESSIONS",
                         absl::StrCat(own, " sessions of yours and ", sessions_.size(),
                                      " in all are open; end one"));
  }
  Entry& entry = sessions_[id];
  entry.session = wanted;
  entry.session.set_id(id);
  entry.session.set_principal(principal);
  entry.session.mutable_attach_within()->set_seconds(absl::ToInt64Seconds(limits_.attach_within));
  entry.opened = now.boot;
  entry.active = now.boot;
  return entry.session;
}

absl::StatusOr<SessionEnd> SessionBook::Attach(const std::string& id, const auth::SpiffeId& caller,
                                               Now now) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return NotYours();
  Entry& entry = it->second;
  if (caller.kind == auth::SpiffeId::Kind::kPerson) {
    if (entry.session.principal() != caller.ToString() || entry.person) return NotYours();
    entry.person = true;
  } else if (caller.kind == auth::SpiffeId::Kind::kNode) {
    if (entry.session.node() != NodeNameOf(caller) || entry.node) return NotYours();
    entry.node = true;
  } else {
    return NotYours();
  }
  entry.active = now.boot;
  return caller.kind == auth::SpiffeId::Kind::kPerson ? SessionEnd::kPerson : SessionEnd::kNode;
}

bool SessionBook::IsJoined(const std::string& id) const {
  const auto it = sessions_.find(id);
  return it != sessions_.end() && it->second.person && it->second.node;
}

bool SessionBook::NodeLeft(const std::string& id, Now now) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end() || !it->second.person || !it->second.end.has_value()) return false;
  it->second.left = now.boot;
  return true;
}

absl::Status SessionBook::OnFrame(const std::string& id, SessionEnd from,
                                  const TaskSessionFrame& frame, Now now) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return NotYours();
  Entry& entry = it->second;
  if (!entry.person || !entry.node) {
    return status::Error(absl::StatusCode::kFailedPrecondition, "NOT_ATTACHED",
                         "a frame before the other end is there");
  }
  if (!MaySend(from, entry.session, frame)) return BadFrame("a frame that this end may not send");
  entry.active = now.boot;
  auto& bytes = from == SessionEnd::kPerson ? entry.bytes_to_task : entry.bytes_from_task;
  bytes += static_cast<int64_t>(frame.data().data().size());
  if (frame.has_open()) ++entry.connections;
  if (frame.has_command_end()) entry.end = frame.command_end();
  return absl::OkStatus();
}

SessionOutcome SessionBook::Outcome(const Entry& entry, absl::Status why) {
  SessionOutcome outcome;
  outcome.session = entry.session;
  std::string text;
  if (entry.end.has_value()) {
    text = entry.end->failure().empty() ? absl::StrCat("exit code ", entry.end->exit_code())
                                        : "the Node could not do it";
  } else if (!entry.person || !entry.node) {
    text = "never begun";
  } else {
    text = entry.session.has_command() ? "broken off"
                                       : absl::StrCat(entry.connections, " connections");
  }
  outcome.message = absl::StrCat(text, ", ", entry.bytes_to_task, " bytes to the Task, ",
                                 entry.bytes_from_task, " from it");
  outcome.status = std::move(why);
  return outcome;
}

absl::optional<SessionOutcome> SessionBook::Close(const std::string& id, absl::Status why) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return absl::nullopt;
  SessionOutcome outcome = Outcome(it->second, std::move(why));
  sessions_.erase(it);
  return outcome;
}

std::pair<BootTime, absl::Status> SessionBook::EndOf(const Entry& entry) const {
  const auto over = [](const char* reason, absl::string_view message) {
    return status::Error(absl::StatusCode::kDeadlineExceeded, reason, message);
  };
  if (!entry.person || !entry.node) {
    return {entry.opened + limits_.attach_within,
            entry.node ? over("NOT_ATTACHED", "you did not attach in time")
                       : over("NODE_NOT_ATTACHED", "the Task's Node did not answer in time")};
  }
  if (entry.left.has_value()) return {*entry.left + limits_.leave_within, absl::OkStatus()};
  const BootTime idle = entry.active + limits_.idle;
  const BootTime total = entry.opened + limits_.total;
  if (idle < total) return {idle, over("SESSION_IDLE", "nothing happened for too long")};
  return {total, over("SESSION_TOO_LONG", "the session has lasted as long as one may")};
}

std::vector<SessionOutcome> SessionBook::Expire(Now now) {
  std::vector<SessionOutcome> outcomes;
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    auto [when, why] = EndOf(it->second);
    if (when > now.boot) {
      ++it;
      continue;
    }
    outcomes.push_back(Outcome(it->second, std::move(why)));
    it = sessions_.erase(it);
  }
  return outcomes;
}

BootTime SessionBook::NextExpiry() const {
  BootTime next = BootTime::InfiniteFuture();
  for (const auto& [id, entry] : sessions_) next = std::min(next, EndOf(entry).first);
  return next;
}

std::vector<std::string> SessionBook::Ids() const {
  std::vector<std::string> ids;
  for (const auto& [id, entry] : sessions_) ids.push_back(id);
  return ids;
}

}  // namespace capstan::telemetry
