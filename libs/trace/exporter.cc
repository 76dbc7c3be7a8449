#include "libs/trace/exporter.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/types/optional.h"
#include "libs/status/error.h"
#include "libs/trace/otlp.h"

namespace capstan::trace {
namespace {

metrics::Counter OutcomeCounter(metrics::Registry* registry, const char* outcome) {
  return registry->AddCounter("spans_total", "Spans of traces by what became of them.",
                              {{"outcome", outcome}});
}

}  // namespace

SpanCounters::SpanCounters(metrics::Registry* registry)
    : exported(OutcomeCounter(registry, "exported")),
      queue_full(OutcomeCounter(registry, "queue_full")),
      refused(OutcomeCounter(registry, "refused")),
      unreachable(OutcomeCounter(registry, "unreachable")) {}

bool MaySendAgain(const absl::Status& answer) {
  switch (answer.code()) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    case absl::StatusCode::kResourceExhausted:
      // Only if the receiver says that it will recover.
      return status::GetRetryDelay(answer).has_value();
    default:
      return false;
  }
}

Exporter::Exporter(const Options& options, Deps deps, const SpanCounters& counters,
                   std::vector<Attribute> resource)
    : options_(options),
      deps_(std::move(deps)),
      counters_(counters),
      resource_(std::move(resource)),
      backoff_(deps_.random, options.backoff) {}

Exporter::~Exporter() {
  deps_.queue->NotifyAt(0, nullptr);
  if (timer_ != 0) deps_.strand->Cancel(timer_);
  if (retry_ != 0) deps_.strand->Cancel(retry_);
}

void Exporter::Start() {
  deps_.queue->NotifyAt(options_.batch_spans, [this, remote = deps_.strand->remote(),
                                               alive = std::weak_ptr<char>(alive_)] {
    remote.Post([this, alive] {
      if (!alive.expired()) Next();
    });
  });
  Look();
}

void Exporter::Look() {
  Next();
  timer_ = deps_.strand->RunAfter(options_.every, [this] {
    timer_ = 0;
    Look();
  });
}

void Exporter::Next() {
  if (sending_ || retry_ != 0) return;
  batch_ = deps_.queue->Take(options_.batch_spans);
  if (batch_.empty()) {
    if (closed_) std::exchange(closed_, nullptr)();
    return;
  }
  first_sent_ = deps_.strand->clock().Read().boot;
  SendBatch();
}

void Exporter::SendBatch() {
  sending_ = true;
  deps_.send(ToOtlp(batch_, resource_),
             [this, alive = std::weak_ptr<char>(alive_)](const absl::StatusOr<Response>& answer) {
               if (!alive.expired()) OnAnswer(answer);
             });
}

void Exporter::OnAnswer(const absl::StatusOr<Response>& answer) {
  sending_ = false;
  if (answer.ok()) {
    const auto spans = static_cast<int64_t>(batch_.size());
    const int64_t rejected =
        std::clamp<int64_t>(answer->partial_success().rejected_spans(), 0, spans);
    counters_.exported.Increment(static_cast<double>(spans - rejected));
    counters_.refused.Increment(static_cast<double>(rejected));
    if (rejected > 0 && deps_.log != nullptr) {
      deps_.log->Warning("spans refused", {{"spans", rejected},
                                           {"error", answer->partial_success().error_message()}});
    }
    if (failing_ && deps_.log != nullptr) deps_.log->Info("spans are exported again");
    failing_ = false;
    backoff_.Reset();
    return Next();
  }
  if (!failing_ && deps_.log != nullptr) {
    deps_.log->Warning("spans are not taken", {{"error", answer.status()}});
  }
  failing_ = true;
  if (!MaySendAgain(answer.status())) return Drop(&counters_.refused, answer.status());
  const BootTime now = deps_.strand->clock().Read().boot;
  if (closed_ || now - first_sent_ >= options_.give_up_after) {
    return Drop(&counters_.unreachable, answer.status());
  }
  const absl::Duration asked =
      status::GetRetryDelay(answer.status()).value_or(absl::ZeroDuration());
  const absl::Duration delay =
      std::max(backoff_.Next(), asked + deps_.random->Between(absl::ZeroDuration(), asked / 4));
  retry_ = deps_.strand->RunAfter(delay, [this] {
    retry_ = 0;
    SendBatch();
  });
}

void Exporter::Drop(metrics::Counter* as, const absl::Status& why) {
  as->Increment(static_cast<double>(batch_.size()));
  if (deps_.log != nullptr) {
    deps_.log->Debug("spans dropped", {{"spans", batch_.size()}, {"error", why}});
  }
  batch_.clear();
  if (!closed_) return Next();
  // The others would not be taken either.
  counters_.unreachable.Increment(static_cast<double>(deps_.queue->Take(SIZE_MAX).size()));
  std::exchange(closed_, nullptr)();
}

void Exporter::Close(absl::AnyInvocable<void()> done) {
  closed_ = std::move(done);
  if (sending_) return;
  if (retry_ != 0) {
    deps_.strand->Cancel(std::exchange(retry_, 0));
    return SendBatch();
  }
  Next();
}

}  // namespace capstan::trace
