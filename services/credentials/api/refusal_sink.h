#ifndef CAPSTAN_SERVICES_CREDENTIALS_API_REFUSAL_SINK_H_
#define CAPSTAN_SERVICES_CREDENTIALS_API_REFUSAL_SINK_H_

#include "absl/status/status.h"
#include "libs/audit/audit_sink.h"
#include "services/credentials/core/event.h"
#include "services/credentials/ports/event_sink.h"

namespace capstan::credentials {

// Brings refusals that are decided outside the core, by access rules and in handshakes, into the
// chain. Unlike other sinks it returns before the record is durable: a refusal has no effect that
// would have to wait, and it is also recorded from the strand itself, which must not block. Never
// use it for an act. Thread-safe.
class RefusalSink final : public audit::AuditSink {
 public:
  // Must outlive it.
  explicit RefusalSink(EventSink* sink) : sink_(sink) {}

  absl::Status Record(const audit::AuditEntry& entry) override {
    RecordAct event;
    event.principal = entry.principal;
    event.act = entry.act;
    event.resource = entry.resource;
    event.outcome_code = entry.outcome_code;
    event.message = entry.message;
    event.repeats = entry.repeats;
    sink_->Submit(std::move(event), [](absl::StatusOr<Answer>) {});
    return absl::OkStatus();
  }

 private:
  EventSink* const sink_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_API_REFUSAL_SINK_H_
