#ifndef CAPSTAN_LIBS_TRACE_TRACER_H_
#define CAPSTAN_LIBS_TRACE_TRACER_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/random/random.h"
#include "libs/time/clock.h"
#include "libs/trace/context.h"
#include "libs/trace/span.h"

namespace capstan::trace {

// Makes contexts, decides which traces are recorded, and hands ended spans on. Thread-safe.
//
// Sampling is parent-based: who continues a trace follows its beginner's decision. A trace that
// begins here is recorded by a ratio of its (random) id, as OpenTelemetry's TraceIdRatioBased does.
class Tracer final : public Sink {
 public:
  struct Options {
    // Share of the traces begun here that are recorded.
    double ratio = 1;
    // The same for those that nobody asked for.
    double background_ratio = 0;
  };

  // `clock` and `sink` must live until Close. Without a sink nothing is recorded or sampled, and
  // contexts are still carried on. `seed` must differ between processes and starts.
  Tracer(const Options& options, const Clock* clock, uint64_t seed, Sink* sink);

  // The beginning of a trace of its own.
  Context NewTrace(bool background);
  // A fresh span in the trace of `parent`.
  Context NewChild(const Context& parent);

  // Hands a span that is sampled to the sink; else nothing.
  void End(Span span) override;
  // The same for one that ends now.
  void EndNow(Span span);

  // Records nothing any more, and reads no clock.
  void Close();

  // Whether spans are recorded at all.
  bool records() const;
  // By the clock; the epoch once it is closed.
  absl::Time Now() const;

 private:
  const Options options_;
  const Clock* const clock_;
  mutable absl::Mutex mutex_;
  Sink* sink_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  Random random_ ABSL_GUARDED_BY(mutex_);
};

// What the thread is at work on: calls that it begins meanwhile continue that trace. For the time
// between making and unmaking, which must nest.
//
//   const trace::Scope scope(trace::Parse(job.spec.traceparent()));
//   data_->Ensure(effect, …);
class Scope {
 public:
  explicit Scope(const absl::optional<Context>& context);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  // Of this thread; else the process'; absl::nullopt if there is none.
  static absl::optional<Context> Current();
  // For threads without a Scope: of a program that does one thing, such as a command. Before other
  // threads are made.
  static void SetProcessContext(const absl::optional<Context>& context);

 private:
  const absl::optional<Context> outer_;
};

}  // namespace capstan::trace

#endif  // CAPSTAN_LIBS_TRACE_TRACER_H_
