#ifndef CAPSTAN_LIBS_RPC_ACCESS_LOG_H_
#define CAPSTAN_LIBS_RPC_ACCESS_LOG_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/support/status_code_enum.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/time/clock.h"

namespace capstan::rpc {

// A line for each call that this process has answered: who called what, how it ended, how long it
// took, and in which trace. Nothing of what was said. Bounded: above `max_lines_per_second` calls
// are only counted, in `access_log_dropped_calls_total`, and the next line says how many.
// Thread-safe.
class AccessLog {
 public:
  struct Options {
    // Only calls that ended with an error.
    bool failed_only = false;
    int max_lines_per_second = 200;
  };
  struct Call {
    // `/package.Service/Method`.
    std::string method;
    // SPIFFE id; empty for who showed no certificate.
    std::string principal;
    grpc::StatusCode code = grpc::StatusCode::OK;
    // When it came.
    BootTime begin;
    // 32 hex digits; empty for a call of no trace.
    std::string trace_id;
  };

  // The clock, the logger's sink and the registry must live until Close.
  AccessLog(const Options& options, const Clock* clock, log::Logger logger,
            metrics::Registry* registry);

  // A call that is over now.
  void Record(const Call& call);
  // Writes nothing any more.
  void Close();
  // For Call::begin; the boot itself once it is closed.
  BootTime Now() const;

 private:
  const Options options_;
  const Clock* const clock_;
  const log::Logger logger_;
  metrics::Counter dropped_total_;
  mutable absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Of the second that began then.
  BootTime second_ ABSL_GUARDED_BY(mutex_);
  int lines_ ABSL_GUARDED_BY(mutex_) = 0;
  // Since the last line.
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_ACCESS_LOG_H_
