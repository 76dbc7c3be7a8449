#include "libs/trace/tracer.h"

#include <utility>

namespace capstan::trace {
namespace {

// Of the trace id's last seven bytes, which W3C and OpenTelemetry want to be random.
constexpr uint64_t kRatioBits = (uint64_t{1} << 56) - 1;

bool WithinRatio(const Context& context, double ratio) {
  if (ratio >= 1) return true;
  return static_cast<double>(context.trace_low & kRatioBits) <
         ratio * static_cast<double>(kRatioBits);
}

absl::optional<Context>& OfThread() {
  thread_local absl::optional<Context> context;
  return context;
}

absl::optional<Context>& OfProcess() {
  static auto* const context = new absl::optional<Context>;
  return *context;
}

}  // namespace

Tracer::Tracer(const Options& options, const Clock* clock, uint64_t seed, Sink* sink)
    : options_(options), clock_(clock), sink_(sink), random_(seed) {}

Context Tracer::NewTrace(bool background) {
  Context context;
  absl::MutexLock lock(&mutex_);
  context.trace_high = random_.Next();
  do {
    context.trace_low = random_.Next();
    context.span = random_.Next();
  } while (context.trace_low == 0 || context.span == 0);
  context.sampled = sink_ != nullptr &&
                    WithinRatio(context, background ? options_.background_ratio : options_.ratio);
  return context;
}

Context Tracer::NewChild(const Context& parent) {
  Context context = parent;
  absl::MutexLock lock(&mutex_);
  do {
    context.span = random_.Next();
  } while (context.span == 0);
  return context;
}

void Tracer::End(Span span) {
  if (!span.context.sampled) return;
  // Held meanwhile, so that the sink is not used after Close.
  absl::MutexLock lock(&mutex_);
  if (sink_ != nullptr) sink_->End(std::move(span));
}

void Tracer::EndNow(Span span) {
  if (!span.context.sampled) return;
  absl::MutexLock lock(&mutex_);
  if (sink_ == nullptr) return;
  span.end = clock_->Read().wall;
  sink_->End(std::move(span));
}

void Tracer::Close() {
  absl::MutexLock lock(&mutex_);
  sink_ = nullptr;
  closed_ = true;
}

bool Tracer::records() const {
  absl::MutexLock lock(&mutex_);
  return sink_ != nullptr;
}

absl::Time Tracer::Now() const {
  absl::MutexLock lock(&mutex_);
  return closed_ ? absl::UnixEpoch() : clock_->Read().wall;
}

Scope::Scope(const absl::optional<Context>& context) : outer_(std::exchange(OfThread(), context)) {}

Scope::~Scope() { OfThread() = outer_; }

absl::optional<Context> Scope::Current() {
  const absl::optional<Context>& context = OfThread();
  return context.has_value() ? context : OfProcess();
}

void Scope::SetProcessContext(const absl::optional<Context>& context) { OfProcess() = context; }

}  // namespace capstan::trace
