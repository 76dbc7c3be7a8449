// Values that go into and come out of the executor's core.
#ifndef CAPSTAN_SERVICES_EXECUTOR_CORE_STEP_H_
#define CAPSTAN_SERVICES_EXECUTOR_CORE_STEP_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "libs/store/store.h"
#include "libs/trace/span.h"
#include "proto/capstan/type/v1/session.pb.h"

namespace capstan::executor {

// Names one stream; the engine gives each a number of its own and never reuses one.
using SessionId = uint64_t;

// --- Events ---

// First event of every life of the core, before any other.
struct Started {};
// The stream to the scheduler is open.
struct UpConnected {
  SessionId session = 0;
};
struct UpMessage {
  SessionId session = 0;
  capstan::type::v1::SessionDown message;
};
struct UpDisconnected {
  SessionId session = 0;
};
// An agent has opened a stream; `node` is what its SVID says.
struct AgentConnected {
  SessionId session = 0;
  std::string node;
};
struct AgentMessage {
  SessionId session = 0;
  capstan::type::v1::SessionUp message;
};
struct AgentDisconnected {
  SessionId session = 0;
};
// NextDeadline has come.
struct Tick {};

using Event = std::variant<Started, UpConnected, UpMessage, UpDisconnected, AgentConnected,
                           AgentMessage, AgentDisconnected, Tick>;

// --- Effects ---

// Sends to the scheduler.
struct SendUp {
  SessionId session = 0;
  capstan::type::v1::SessionUp message;
};
// Ends the stream to the scheduler; the engine dials again with back-off.
struct CloseUp {
  SessionId session = 0;
  absl::Status status;
};
// Sends to an agent.
struct SendAgent {
  SessionId session = 0;
  capstan::type::v1::SessionDown message;
};
// Ends an agent's stream with a status.
struct CloseAgent {
  SessionId session = 0;
  absl::Status status;
};
// Something an operator must know: counted by reason and logged.
struct Alarm {
  // `BREAKER_TRIPPED`, `LOWER_TOKEN`, `NODE_SILENT`, `WRONG_NODE`, `UIDS_EXHAUSTED`.
  std::string reason;
  std::string message;
};

// Tells of something that is over once the effect is carried out.
struct TellSpan {
  trace::Span span;
};

using Effect = std::variant<SendUp, CloseUp, SendAgent, CloseAgent, Alarm, TellSpan>;

// What one event leads to. `puts` and `deletes` name no key twice and are to be committed in order,
// each on its own being consistent with those before it; then, and after all earlier steps, `after`
// is carried out in order.
struct Step {
  std::vector<store::Put> puts;
  std::vector<store::Delete> deletes;
  std::vector<Effect> after;
};

}  // namespace capstan::executor

#endif  // CAPSTAN_SERVICES_EXECUTOR_CORE_STEP_H_
