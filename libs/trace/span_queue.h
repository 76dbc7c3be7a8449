#ifndef CAPSTAN_LIBS_TRACE_SPAN_QUEUE_H_
#define CAPSTAN_LIBS_TRACE_SPAN_QUEUE_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "libs/metrics/registry.h"
#include "libs/trace/span.h"

namespace capstan::trace {

// Spans that wait to be exported: at most `capacity`; what comes when it is full is dropped and
// counted. Thread-safe.
class SpanQueue final : public Sink {
 public:
  // `dropped` counts what there was no room for.
  SpanQueue(size_t capacity, metrics::Counter dropped) : capacity_(capacity), dropped_(dropped) {}

  void End(Span span) override;

  // The oldest ones, at most `most`, which are then the caller's.
  std::vector<Span> Take(size_t most);
  size_t size() const;

  // Called, on whatever thread, when the queue comes to hold `level` spans; for the exporter, which
  // takes the notice back with nullptr before it goes. Must only post.
  void NotifyAt(size_t level, std::function<void()> notice);

 private:
  const size_t capacity_;
  metrics::Counter dropped_;
  mutable absl::Mutex mutex_;
  std::deque<Span> spans_ ABSL_GUARDED_BY(mutex_);
  size_t level_ ABSL_GUARDED_BY(mutex_) = 0;
  std::function<void()> notice_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::trace

#endif  // CAPSTAN_LIBS_TRACE_SPAN_QUEUE_H_
