#include "libs/rpc/admission.h"

#include <algorithm>
#include <cstdint>

#include "libs/status/error.h"

namespace capstan::rpc {
namespace {

constexpr char kRefused[] = "calls_refused_total";
constexpr char kRefusedHelp[] = "Calls told to come again, as too many were under way.";

bool IsOwnPart(const auth::Caller& caller) {
  return caller.IsService() || caller.IsExecutor() || caller.IsNode();
}

struct OfProcess {
  absl::Mutex mutex;
  std::shared_ptr<Admission> admission ABSL_GUARDED_BY(mutex);
};

OfProcess& ThisProcess() {
  static auto* const kThis = new OfProcess;
  return *kThis;
}

}  // namespace

void Admission::Ticket::Leave() {
  if (admission_ != nullptr) admission_->Leave(*this);
  admission_ = nullptr;
}

std::shared_ptr<Admission> Admission::Make(const Options& options, metrics::Registry* registry) {
  return std::shared_ptr<Admission>(new Admission(options, registry));
}

Admission::Admission(const Options& options, metrics::Registry* registry)
    : retry_delay_(options.retry_delay),
      refused_calls_(registry->AddCounter(kRefused, kRefusedHelp, {{"kind", "call"}})),
      refused_streams_(registry->AddCounter(kRefused, kRefusedHelp, {{"kind", "stream"}})) {
  calls_.bound = options.calls;
  streams_.bound = options.streams;
}

absl::StatusOr<Admission::Ticket> Admission::Enter(const auth::Caller& caller, Kind kind) {
  Ticket ticket;
  ticket.kind_ = kind;
  ticket.of_part_ = IsOwnPart(caller);
  ticket.principal_ = caller.Name();
  absl::MutexLock lock(&mutex_);
  Pool& pool = PoolOf(kind);
  const Bound& bound = pool.bound;
  const auto held = pool.of_principal.find(ticket.principal_);
  const int own = held == pool.of_principal.end() ? 0 : held->second;
  int most = 0;
  if (ticket.of_part_) {
    most = std::min(bound.of_part, bound.all - pool.of_parts - pool.shared);
  } else {
    const int64_t for_others = int64_t{bound.all - pool.of_parts} * bound.shared / bound.all;
    most = std::min(bound.each, static_cast<int>(for_others) - pool.shared);
  }
  const bool admitted = own < most;
  if (!admitted) {
    if (!closed_) (kind == Kind::kCall ? refused_calls_ : refused_streams_).Increment();
    return status::WithRetryDelay(
        status::Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_CALLS",
                      "more calls are under way than the service takes; come again later"),
        retry_delay_);
  }
  ++(ticket.of_part_ ? pool.of_parts : pool.shared);
  ++pool.of_principal[ticket.principal_];
  ticket.admission_ = shared_from_this();
  return ticket;
}

void Admission::Leave(const Ticket& ticket) {
  absl::MutexLock lock(&mutex_);
  Pool& pool = PoolOf(ticket.kind_);
  --(ticket.of_part_ ? pool.of_parts : pool.shared);
  const auto held = pool.of_principal.find(ticket.principal_);
  if (--held->second == 0) pool.of_principal.erase(held);
}

void Admission::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

void SetAdmission(std::shared_ptr<Admission> admission) {
  OfProcess& process = ThisProcess();
  absl::MutexLock lock(&process.mutex);
  process.admission = std::move(admission);
}

absl::StatusOr<Admission::Ticket> Admit(const absl::StatusOr<auth::Caller>& caller,
                                        Admission::Kind kind) {
  if (!caller.ok()) return caller.status();
  std::shared_ptr<Admission> admission;
  {
    OfProcess& process = ThisProcess();
    absl::MutexLock lock(&process.mutex);
    admission = process.admission;
  }
  if (admission == nullptr) return Admission::Ticket();
  return admission->Enter(*caller, kind);
}

}  // namespace capstan::rpc
