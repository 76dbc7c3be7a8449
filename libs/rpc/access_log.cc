#include "libs/rpc/access_log.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace capstan::rpc {

AccessLog::AccessLog(const Options& options, const Clock* clock, log::Logger logger,
                     metrics::Registry* registry)
    : options_(options),
      clock_(clock),
      logger_(std::move(logger)),
      dropped_total_(registry->AddCounter("access_log_dropped_calls_total",
                                          "Calls too many to be written to the access log.")) {}

void AccessLog::Record(const Call& call) {
  if (options_.failed_only && call.code == grpc::StatusCode::OK) return;
  // Held while the line is written, so that nothing is written after Close.
  absl::MutexLock lock(&mutex_);
  if (closed_) return;
  const BootTime now = clock_->Read().boot;
  if (now - second_ >= absl::Seconds(1)) {
    second_ = now;
    lines_ = 0;
  }
  if (lines_ >= options_.max_lines_per_second) {
    ++dropped_;
    dropped_total_.Increment();
    return;
  }
  ++lines_;
  if (dropped_ > 0) logger_.Warning("calls not logged", {{"calls", std::exchange(dropped_, 0)}});
  const std::string principal = call.principal.empty() ? "anonymous" : call.principal;
  const std::string code = absl::StatusCodeToString(static_cast<absl::StatusCode>(call.code));
  const absl::Duration duration = now - call.begin;
  if (call.trace_id.empty()) {
    logger_.Info("call", {{"method", call.method},
                          {"principal", principal},
                          {"code", code},
                          {"duration", duration}});
  } else {
    logger_.Info("call", {{"method", call.method},
                          {"principal", principal},
                          {"code", code},
                          {"duration", duration},
                          {"trace_id", call.trace_id}});
  }
}

void AccessLog::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

BootTime AccessLog::Now() const {
  absl::MutexLock lock(&mutex_);
  return closed_ ? BootTime() : clock_->Read().boot;
}

}  // namespace capstan::rpc
