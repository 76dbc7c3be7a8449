// What is asked for and sent by people and Nodes, in any order: nobody gets into another's session,
// no frame passes that its end may not send, and the bounds hold.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/auth/spiffe_id.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/fuzzing/fuzz_message.h"
#include "libs/time/clock.h"
#include "proto/capstan/telemetry/v1/task_session.pb.h"
#include "services/telemetry/core/session_book.h"

namespace {

using capstan::Now;
using capstan::auth::SpiffeId;
using capstan::fuzzing::FuzzInput;
using capstan::fuzzing::MakeMessage;
using capstan::fuzzing::Require;
using capstan::telemetry::SessionBook;
using capstan::telemetry::SessionEnd;
using capstan::telemetry::v1::OpenTaskSessionRequest;
using capstan::telemetry::v1::TaskSession;
using capstan::telemetry::v1::TaskSessionFrame;

const std::vector<std::string>& Words() {
  static const auto& words = *new std::vector<std::string>{
      "projects/p/jobs/j", "clusters/c/nodes/n", "clusters/c/nodes/m", "job", "g", "sh", ""};
  return words;
}

const std::vector<SpiffeId>& Callers() {
  static const auto& callers = *new std::vector<SpiffeId>{
      SpiffeId::Parse("spiffe://x.local/person/alice").value(),
      SpiffeId::Parse("spiffe://x.local/person/bob").value(),
      SpiffeId::Parse("spiffe://x.local/node/c/n").value(),
      SpiffeId::Parse("spiffe://x.local/node/c/m").value(),
      SpiffeId::Parse("spiffe://x.local/svc/scheduler").value(),
  };
  return callers;
}

void CheckAccepted(const TaskSession& session) {
  Require(session.has_command() != session.has_ports());
  if (session.has_command()) {
    Require(!session.command().argv().empty() && !session.command().argv(0).empty());
    for (const std::string& word : session.command().argv()) {
      Require(word.find('\0') == std::string::npos);
    }
  }
  for (const int port : session.ports().ports()) Require(port >= 1 && port <= 65535);
  Require(session.ports().ports_size() <= 32);
}

class World {
 public:
  void Step(FuzzInput* input) {
    const std::string id =
        sessions_.empty() ? "none" : sessions_[input->Below(sessions_.size())].id();
    switch (input->Below(8)) {
      case 0:
        Open(input);
        break;
      case 1:
      case 2:
        Attach(id, Callers()[input->Below(Callers().size())]);
        break;
      case 3:
      case 4: {
        const SessionEnd from = input->Flag() ? SessionEnd::kPerson : SessionEnd::kNode;
        const auto frame = MakeMessage<TaskSessionFrame>(Words(), input);
        const bool joined = book_.IsJoined(id);
        const bool passed = book_.OnFrame(id, from, frame, now_).ok();
        Require(!passed || joined);
        if (!passed) break;
        Require(!frame.has_attach() && !frame.has_attached());
        Require(!frame.has_command_end() || from == SessionEnd::kNode);
        if (frame.has_open()) CheckOpen(id, from, frame);
        break;
      }
      case 5:
        (void)book_.Close(id, absl::OkStatus());
        break;
      case 6:
        if (book_.NodeLeft(id, now_)) Require(book_.IsJoined(id));
        break;
      default: {
        now_.boot = now_.boot + absl::Seconds(input->Below(250));
        (void)book_.Expire(now_);
        Require(book_.NextExpiry() > now_.boot);
      }
    }
    Require(book_.size() <= 4 && book_.Ids().size() == book_.size());
  }

 private:
  void Open(FuzzInput* input) {
    auto request = MakeMessage<OpenTaskSessionRequest>(Words(), input);
    if (input->Flag()) {
      TaskSession& session = *request.mutable_session();
      session.set_job("projects/p/jobs/j");
      session.set_node("clusters/c/nodes/n");
      session.mutable_task()->set_job_uid("job");
      session.mutable_task()->set_group("g");
      session.mutable_task()->set_generation(1);
      session.mutable_task()->set_index(0);
    }
    if (!capstan::telemetry::CheckSession(request).ok()) return;
    CheckAccepted(request.session());
    const std::string principal = Callers()[input->Below(2)].ToString();
    const auto opened =
        book_.Open(request.session(), absl::StrCat("s", ++last_id_), principal, now_);
    if (!opened.ok()) return;
    Require(opened->principal() == principal);
    sessions_.push_back(*opened);
  }

  void Attach(const std::string& id, const SpiffeId& caller) {
    const absl::StatusOr<SessionEnd> end = book_.Attach(id, caller, now_);
    if (!end.ok()) return;
    const auto session = Find(id);
    if (*end == SessionEnd::kPerson) {
      Require(session->principal() == caller.ToString());
    } else {
      Require(session->node() == capstan::telemetry::NodeNameOf(caller));
    }
    // Each end comes once.
    Require(!book_.Attach(id, caller, now_).ok());
  }

  void CheckOpen(const std::string& id, SessionEnd from, const TaskSessionFrame& frame) const {
    Require(from == SessionEnd::kPerson);
    const auto& ports = Find(id)->ports().ports();
    Require(std::find(ports.begin(), ports.end(), frame.open().port()) != ports.end());
  }

  std::vector<TaskSession>::const_iterator Find(const std::string& id) const {
    const auto found =
        std::find_if(sessions_.begin(), sessions_.end(),
                     [&id](const TaskSession& session) { return session.id() == id; });
    Require(found != sessions_.end());
    return found;
  }

  SessionBook book_{{.sessions = 4, .of_one_principal = 3}};
  Now now_ = {absl::FromUnixSeconds(1'700'000'000), capstan::BootTime() + absl::Hours(1)};
  std::vector<TaskSession> sessions_;
  int last_id_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  World world;
  while (!input.empty()) world.Step(&input);
  return 0;
}
