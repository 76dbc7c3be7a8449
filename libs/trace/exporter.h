#ifndef CAPSTAN_LIBS_TRACE_EXPORTER_H_
#define CAPSTAN_LIBS_TRACE_EXPORTER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/rpc/backoff.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"
#include "libs/trace/span.h"
#include "libs/trace/span_queue.h"
#include "proto/opentelemetry/collector/trace/v1/trace_service.pb.h"

namespace capstan::trace {

// How many spans went which way: `spans_total{outcome}`, which counts each span once.
struct SpanCounters {
  explicit SpanCounters(metrics::Registry* registry);

  // Taken by the receiver.
  metrics::Counter exported;
  // The queue was full: spans come faster than the receiver takes them.
  metrics::Counter queue_full;
  // The receiver said that it will never take them.
  metrics::Counter refused;
  // No answer, or only `try again`, for `give_up_after`, or when the process ended.
  metrics::Counter unreachable;
};

// Whether OTLP lets a request that was answered so be sent again.
bool MaySendAgain(const absl::Status& answer);

// Takes spans from a queue and sends them by OTLP, one batch at a time. An answer that OTLP calls
// retryable is followed by the same batch again, after a jittered back-off and not before the
// receiver's RetryInfo; meanwhile the queue fills and then drops. What a receiver rejected for
// good, and what it did not take for too long, is counted and dropped. For one strand.
class Exporter {
 public:
  using Request = opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
  using Response = opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;
  // Sends a request and calls back on the strand, once, within a deadline of its own.
  using Send =
      std::function<void(Request request, absl::AnyInvocable<void(absl::StatusOr<Response>)> done)>;

  struct Options {
    // Of a request; a full batch goes at once.
    size_t batch_spans = 512;
    // How long a span waits for others.
    absl::Duration every = absl::Seconds(1);
    rpc::BackoffConfig backoff = {.initial = absl::Seconds(1), .max = absl::Seconds(15)};
    absl::Duration give_up_after = absl::Minutes(1);
  };
  struct Deps {
    // All must outlive it.
    Strand* strand = nullptr;
    Random* random = nullptr;
    SpanQueue* queue = nullptr;
    // May be null.
    const log::Logger* log = nullptr;
    Send send;
  };

  // `resource` as ToOtlp takes it.
  Exporter(const Options& options, Deps deps, const SpanCounters& counters,
           std::vector<Attribute> resource);
  // On the strand, or after it has stopped.
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  // On the strand.
  void Start();
  // On the strand: sends what there is, without trying anything twice, and calls `done` then. What
  // ends later is not exported.
  void Close(absl::AnyInvocable<void()> done);

 private:
  void Look();
  void SendBatch();
  void OnAnswer(const absl::StatusOr<Response>& answer);
  void Drop(metrics::Counter* as, const absl::Status& why);
  void Next();

  const Options options_;
  const Deps deps_;
  SpanCounters counters_;
  const std::vector<Attribute> resource_;
  rpc::Backoff backoff_;
  // Being sent, or waiting to be sent again.
  std::vector<Span> batch_;
  BootTime first_sent_;
  bool sending_ = false;
  // Whether the log has been told.
  bool failing_ = false;
  Strand::TimerId timer_ = 0;
  Strand::TimerId retry_ = 0;
  absl::AnyInvocable<void()> closed_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::trace

#endif  // CAPSTAN_LIBS_TRACE_EXPORTER_H_
