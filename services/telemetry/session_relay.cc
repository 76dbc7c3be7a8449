#include "services/telemetry/session_relay.h"

#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/status/error.h"

namespace capstan::telemetry {

using v1::TaskSession;
using v1::TaskSessionFrame;

namespace {

// How soon a right that was taken away ends a session.
constexpr absl::Duration kRecheckEvery = absl::Seconds(5);
// Of a command in the audit trail.
constexpr size_t kMostCommandBytes = 2048;
constexpr char kOpenAct[] = "/capstan.telemetry.v1.TaskSessionService/OpenTaskSession";
constexpr char kEndAct[] = "/capstan.telemetry.v1.TaskSessionService/EndTaskSession";

absl::Status Stopping() { return absl::UnavailableError("telemetry is stopping"); }

// What is done, for the audit trail. Words are escaped, so that none looks like two.
std::string ActText(const TaskSession& session) {
  std::string text;
  if (session.has_ports()) {
    text = "ports";
    for (const int port : session.ports().ports()) absl::StrAppend(&text, " ", port);
    return text;
  }
  text = "command";
  for (const std::string& word : session.command().argv()) {
    absl::StrAppend(&text, " '", absl::CHexEscape(word), "'");
  }
  if (text.size() <= kMostCommandBytes) return text;
  return absl::StrCat(text.substr(0, kMostCommandBytes), "... (", session.command().argv_size(),
                      " words)");
}

audit::AuditEntry Entry(const char* act, const TaskSession& session, const std::string& message) {
  audit::AuditEntry entry;
  entry.principal = session.principal();
  entry.act = act;
  entry.resource = session.job();
  entry.message = absl::StrCat("session ", session.id(), ": ", message);
  return entry;
}

}  // namespace

SessionRelay::SessionRelay(SessionBook::Limits limits, const Deps& deps, Random random)
    : deps_(deps),
      random_(random),
      book_(limits),
      open_(deps.metrics->AddGauge("open_task_sessions", "Task sessions that are open now.")),
      opened_(deps.metrics->AddCounter("task_sessions_total", "Task sessions that were opened.")) {}

SessionRelay::~SessionRelay() {
  if (timer_ != 0) deps_.strand->Cancel(timer_);
}

void SessionRelay::Open(const TaskSession& wanted, const auth::Caller& caller,
                        absl::AnyInvocable<void(absl::StatusOr<TaskSession>)> done) {
  if (stopped_) return done(Stopping());
  if (watchers_.count(wanted.node()) == 0) {
    return done(status::Error(absl::StatusCode::kUnavailable, "NODE_NOT_WATCHING",
                              "the Task's Node is not connected to telemetry"));
  }
  const std::string id = absl::StrFormat("%016x%016x", random_.Next(), random_.Next());
  absl::StatusOr<TaskSession> session =
      book_.Open(wanted, id, caller.Name(), deps_.strand->clock().Read());
  if (!session.ok()) return done(session.status());
  ArmTimer();
  const audit::AuditEntry entry =
      Entry(kOpenAct, *session,
            absl::StrCat("rank ", session->rank(), ", ", session->task().group(), "-",
                         session->task().index(), " of generation ", session->task().generation(),
                         " on ", session->node(), ", ", ActText(*session)));
  // Without the record there is no act.
  deps_.audit_strand->Post([this, alive = std::weak_ptr<char>(alive_), strand = deps_.strand,
                            audit = deps_.audit, entry, session = *std::move(session), caller,
                            done = std::move(done)]() mutable {
    const absl::Status recorded = audit->Record(entry);
    strand->Post([this, alive, session = std::move(session), caller, done = std::move(done),
                  recorded]() mutable {
      if (alive.expired()) return done(Stopping());
      Opened(session, caller, std::move(done), recorded);
    });
  });
}

void SessionRelay::Opened(const TaskSession& session, const auth::Caller& caller,
                          absl::AnyInvocable<void(absl::StatusOr<TaskSession>)> done,
                          const absl::Status& recorded) {
  const auto watcher = watchers_.find(session.node());
  absl::Status told = recorded;
  if (told.ok() && watcher == watchers_.end()) told = Stopping();
  if (told.ok()) {
    ends_[session.id()].caller = caller;
    told = watcher->second.sink.send(session);
  }
  if (!told.ok()) {
    Close(session.id(), told);
    return done(told);
  }
  opened_.Increment();
  open_.Set(static_cast<double>(book_.size()));
  done(session);
}

uint64_t SessionRelay::Watch(const std::string& node, WatchSink sink) {
  if (stopped_) {
    sink.finish(Stopping());
    return 0;
  }
  Watcher& watcher = watchers_[node];
  if (watcher.number != 0) {
    watcher.sink.finish(
        status::Error(absl::StatusCode::kAborted, "REPLACED", "a newer watch of this Node"));
  }
  watcher.number = ++last_watch_;
  watcher.sink = std::move(sink);
  return watcher.number;
}

void SessionRelay::Unwatch(const std::string& node, uint64_t number) {
  const auto it = watchers_.find(node);
  if (it != watchers_.end() && it->second.number == number) watchers_.erase(it);
}

absl::StatusOr<SessionEnd> SessionRelay::Attach(const std::string& id, const auth::Caller& caller,
                                                FrameSink sink) {
  if (stopped_) return Stopping();
  if (!caller.id.has_value()) return absl::PermissionDeniedError("no identity");
  const absl::StatusOr<SessionEnd> end = book_.Attach(id, *caller.id, deps_.strand->clock().Read());
  if (!end.ok()) return end;
  Ends& ends = ends_[id];
  (*end == SessionEnd::kPerson ? ends.person : ends.node) = std::move(sink);
  if (!book_.IsJoined(id)) return end;
  TaskSessionFrame frame;
  frame.mutable_attached();
  // The Node first: what the person then sends finds it ready.
  absl::Status joined = ends.node.send(frame);
  if (joined.ok()) joined = ends.person.send(frame);
  // The stream in hand is not known to its owner yet.
  if (!joined.ok()) {
    deps_.strand->Post([this, alive = std::weak_ptr<char>(alive_), id, joined] {
      if (!alive.expired()) Close(id, joined);
    });
  }
  return end;
}

void SessionRelay::OnFrame(const std::string& id, SessionEnd from, const TaskSessionFrame& frame) {
  const auto it = ends_.find(id);
  if (it == ends_.end()) return;
  absl::Status passed = book_.OnFrame(id, from, frame, deps_.strand->clock().Read());
  if (passed.ok()) {
    const FrameSink& to = from == SessionEnd::kPerson ? it->second.node : it->second.person;
    // Nobody reads what is sent to a command that has ended.
    if (to.send) passed = to.send(frame);
  }
  if (!passed.ok()) Close(id, passed);
}

void SessionRelay::OnClosed(const std::string& id, SessionEnd end, const absl::Status& status) {
  const auto it = ends_.find(id);
  if (it == ends_.end()) return;
  (end == SessionEnd::kPerson ? it->second.person : it->second.node) = FrameSink();
  if (end == SessionEnd::kPerson) {
    return Close(id, status.ok() ? absl::OkStatus() : absl::CancelledError("the client is gone"));
  }
  // One that is killed looks like one that has closed its side.
  if (status.ok() && book_.NodeLeft(id, deps_.strand->clock().Read())) return;
  Close(id, status::Error(absl::StatusCode::kUnavailable, "NODE_GONE",
                          "the Task's Node has left the session"));
}

void SessionRelay::Close(const std::string& id, const absl::Status& why) {
  if (const auto outcome = book_.Close(id, why)) Closed(*outcome);
}

void SessionRelay::Closed(const SessionOutcome& outcome) {
  open_.Set(static_cast<double>(book_.size()));
  const auto it = ends_.find(outcome.session.id());
  if (it != ends_.end()) {
    const Ends ends = std::move(it->second);
    ends_.erase(it);
    for (const FrameSink* sink : {&ends.person, &ends.node}) {
      if (sink->finish) sink->finish(outcome.status);
    }
  }
  audit::AuditEntry entry = Entry(kEndAct, outcome.session, outcome.message);
  entry.outcome_code = static_cast<int>(outcome.status.code());
  deps_.audit_strand->Post([audit = deps_.audit, entry = std::move(entry)] {
    // The act is over: there is nothing left to be refused. The chain says what it could not take.
    audit->Record(entry).IgnoreError();
  });
}

void SessionRelay::Tick() {
  const Now now = deps_.strand->clock().Read();
  for (const SessionOutcome& outcome : book_.Expire(now)) Closed(outcome);
  std::vector<std::pair<std::string, absl::Status>> lost;
  for (const auto& [id, ends] : ends_) {
    const absl::Status still = deps_.access->Recheck(ends.caller);
    if (!still.ok()) lost.emplace_back(id, still);
  }
  for (const auto& [id, why] : lost) Close(id, why);
  ArmTimer();
}

void SessionRelay::ArmTimer() {
  if (timer_ != 0 || book_.size() == 0 || stopped_) return;
  timer_ = deps_.strand->RunAfter(kRecheckEvery, [this, alive = std::weak_ptr<char>(alive_)] {
    if (alive.expired()) return;
    timer_ = 0;
    Tick();
  });
}

void SessionRelay::Stop() {
  stopped_ = true;
  for (const std::string& id : book_.Ids()) Close(id, Stopping());
  for (const auto& [node, watcher] : std::exchange(watchers_, {})) {
    watcher.sink.finish(Stopping());
  }
}

}  // namespace capstan::telemetry
