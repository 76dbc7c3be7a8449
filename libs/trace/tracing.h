#ifndef CAPSTAN_LIBS_TRACE_TRACING_H_
#define CAPSTAN_LIBS_TRACE_TRACING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/clock.h"
#include "libs/trace/exporter.h"
#include "libs/trace/span.h"
#include "libs/trace/span_queue.h"
#include "libs/trace/tracer.h"
#include "proto/capstan/config/v1/observation.pb.h"

namespace capstan::trace {

// Of one process: a tracer and, if the settings name a receiver, queue and exporter on a strand of
// their own. At most 4,096 spans wait.
class Tracing {
 public:
  struct Deps {
    // All but `log`, which may be null, must outlive it.
    const Clock* clock = nullptr;
    metrics::Registry* metrics = nullptr;
    const log::Logger* log = nullptr;
    // Of the operating system's randomness.
    uint64_t seed = 0;
    // `service.name` and what else says which process this is.
    std::vector<Attribute> resource = {};
  };

  // The error names the file of the authority if it cannot be read. Dials nobody yet.
  static absl::StatusOr<std::unique_ptr<Tracing>> Open(const config::v1::Traces& config, Deps deps);
  // Drops what Close did not send.
  ~Tracing();

  // Outlives this object in the hands of those who still hold it, and then does nothing.
  const std::shared_ptr<Tracer>& tracer() const { return tracer_; }
  // Sends what has ended, once, and returns when that is over or `within` has passed.
  void Close(absl::Duration within);

 private:
  explicit Tracing(const Deps& deps) : random_(deps.seed) {}

  // Of the strand.
  Random random_;
  std::unique_ptr<ThreadStrand> strand_;
  std::unique_ptr<SpanQueue> queue_;
  std::unique_ptr<Exporter> exporter_;
  std::shared_ptr<Tracer> tracer_;
};

}  // namespace capstan::trace

#endif  // CAPSTAN_LIBS_TRACE_TRACING_H_
