#include "libs/auth/refused_handshakes.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace capstan::auth {
namespace {

constexpr char kMetric[] = "handshakes_refused_total";
constexpr char kHelp[] = "TLS handshakes that this process refused, by its side";
constexpr size_t kMaxClaim = 256;

}  // namespace

absl::Status RefusedHandshakes::Sink::Record(const audit::AuditEntry& entry) {
  logger_->Warning("handshake refused", {{"act", entry.act},
                                         {"cause", entry.message},
                                         {"claimed_id", entry.resource},
                                         {"repeats", entry.repeats}});
  return audit_->Record(entry);
}

RefusedHandshakes::RefusedHandshakes(audit::AuditSink* audit, const Clock* clock,
                                     const log::Logger* logger, metrics::Registry* registry)
    : clock_(clock),
      sink_(audit, logger),
      as_server_(registry->AddCounter(kMetric, kHelp, {{"side", "server"}})),
      as_client_(registry->AddCounter(kMetric, kHelp, {{"side", "client"}})),
      denials_(&sink_) {}

RefusedHandshakes::~RefusedHandshakes() { Close(); }

void RefusedHandshakes::Record(Side side, const absl::Status& why, absl::string_view claimed_id) {
  absl::MutexLock lock(&mutex_);
  if (closed_) return;
  const bool server = side == Side::kServer;
  (server ? as_server_ : as_client_).Increment();
  denials_.Record({.principal = "anonymous",
                   .act = server ? "handshake" : "handshake-as-client",
                   .resource = absl::CEscape(claimed_id.substr(0, kMaxClaim)),
                   .outcome_code = static_cast<int>(absl::StatusCode::kUnauthenticated),
                   .message = absl::CEscape(why.message().substr(0, kMaxClaim)),
                   .repeats = 0},
                  clock_->Read().boot);
}

void RefusedHandshakes::Flush() {
  absl::MutexLock lock(&mutex_);
  if (!closed_) denials_.Flush(clock_->Read().boot);
}

void RefusedHandshakes::Close() {
  absl::MutexLock lock(&mutex_);
  if (closed_) return;
  closed_ = true;
  denials_.Flush(BootTime::InfiniteFuture());
}

}  // namespace capstan::auth
