#ifndef CAPSTAN_SERVICES_CREDENTIALS_PORTS_EVENT_SINK_H_
#define CAPSTAN_SERVICES_CREDENTIALS_PORTS_EVENT_SINK_H_

#include <variant>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "proto/capstan/credentials/v1/join_service.pb.h"
#include "proto/capstan/credentials/v1/project.pb.h"
#include "proto/capstan/credentials/v1/token_service.pb.h"
#include "services/credentials/core/event.h"

namespace capstan::credentials {

// What comes of an event: the outcome of the core, with certificates and tokens signed.
using Answer = std::variant<Done, v1::Svid, v1::JwtSvid, TokenMade, v1::Project, v1::RoleBinding>;

// Where events of callers go: the engine. Thread-safe.
class EventSink {
 public:
  using Callback = absl::AnyInvocable<void(absl::StatusOr<Answer>)>;

  virtual ~EventSink() = default;

  // Applies an event; its `call` is overwritten. `done` runs exactly once, on the engine's strand
  // when the step is committed, or on any thread when it is refused. Errors beside the core's own:
  //   UNAVAILABLE/NOT_SERVING       nothing was tried;
  //   UNAVAILABLE/OUTCOME_UNKNOWN   the commit failed: it may have taken effect;
  //   RESOURCE_EXHAUSTED/OVERLOADED too much waits to be committed.
  virtual void Submit(Event event, Callback done) = 0;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_PORTS_EVENT_SINK_H_
