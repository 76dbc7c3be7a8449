#include "libs/rpc/admission.h"

#include <algorithm>

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
  if (admission_ != nullptr) admission_->Leave(kind_, principal_);
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
  if (!IsOwnPart(caller)) ticket.principal_ = caller.Name();
  absl::MutexLock lock(&mutex_);
  Pool& pool = PoolOf(kind);
  bool admitted = pool.under_way < pool.bound.all;
  if (admitted && !ticket.principal_.empty()) {
    const auto held = pool.of_principal.find(ticket.principal_);
    const int own = held == pool.of_principal.end() ? 0 : held->second;
    admitted = own < std::min(pool.bound.each, pool.bound.shared - pool.shared);
  }
  if (!admitted) {
    if (!closed_) (kind == Kind::kCall ? refused_calls_ : refused_streams_).Increment();
    return status::WithRetryDelay(
        status::Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_CALLS",
                      "more calls are under way than the service takes; come again later"),
        retry_delay_);
  }
  ++pool.under_way;
  if (!ticket.principal_.empty()) {
    ++pool.shared;
    ++pool.of_principal[ticket.principal_];
  }
  ticket.admission_ = shared_from_this();
  return ticket;
}

void Admission::Leave(Kind kind, const std::string& principal) {
  absl::MutexLock lock(&mutex_);
  Pool& pool = PoolOf(kind);
  --pool.under_way;
  if (principal.empty()) return;
  --pool.shared;
  const auto held = pool.of_principal.find(principal);
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
