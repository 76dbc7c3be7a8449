#include "libs/store/metered_store.h"

#include <utility>

namespace capstan::store {
namespace {

bool IsStoreFault(const absl::Status& status) {
  return !status.ok() && !absl::IsInvalidArgument(status) && !absl::IsOutOfRange(status) &&
         !absl::IsNotFound(status);
}

metrics::Counter Errors(metrics::Registry* registry, const char* operation) {
  return registry->AddCounter("store_errors_total",
                              "Operations of the store that failed by its own fault.",
                              {{"operation", operation}});
}

metrics::Histogram Durations(metrics::Registry* registry, const char* operation) {
  return registry->AddHistogram("store_operation_duration_seconds",
                                "From an operation of the store to its answer.",
                                metrics::LatencyBuckets(), {{"operation", operation}});
}

}  // namespace

MeteredStore::MeteredStore(std::unique_ptr<Store> store, const Clock* clock,
                           metrics::Registry* registry)
    : clock_(clock),
      range_{Durations(registry, "range"), Errors(registry, "range")},
      txn_{Durations(registry, "txn"), Errors(registry, "txn")},
      lease_{Durations(registry, "lease"), Errors(registry, "lease")},
      compact_{Durations(registry, "compact"), Errors(registry, "compact")},
      watch_errors_(Errors(registry, "watch")),
      store_(std::move(store)) {}

MeteredStore::~MeteredStore() = default;

template <typename T>
Callback<T> MeteredStore::Measure(Operation operation, Callback<T> done) {
  return [clock = clock_, begun = clock_->Read().boot, operation,
          done = std::move(done)](absl::StatusOr<T> answer) mutable {
    operation.duration.Observe(clock->Read().boot - begun);
    if (IsStoreFault(answer.status())) operation.errors.Increment();
    done(std::move(answer));
  };
}

DoneCallback MeteredStore::MeasureDone(Operation operation, DoneCallback done) {
  return [clock = clock_, begun = clock_->Read().boot, operation,
          done = std::move(done)](absl::Status answer) mutable {
    operation.duration.Observe(clock->Read().boot - begun);
    if (IsStoreFault(answer)) operation.errors.Increment();
    done(std::move(answer));
  };
}

void MeteredStore::Range(RangeRequest request, Callback<RangeResult> done) {
  store_->Range(std::move(request), Measure(range_, std::move(done)));
}

void MeteredStore::Txn(TxnRequest request, Callback<TxnResult> done) {
  store_->Txn(std::move(request), Measure(txn_, std::move(done)));
}

std::unique_ptr<Watch> MeteredStore::StartWatch(
    WatchRequest request, absl::AnyInvocable<void(absl::StatusOr<WatchBatch>)> on_batch) {
  return store_->StartWatch(std::move(request),
                            [errors = watch_errors_, on_batch = std::move(on_batch)](
                                absl::StatusOr<WatchBatch> batch) mutable {
                              if (IsStoreFault(batch.status())) errors.Increment();
                              on_batch(std::move(batch));
                            });
}

void MeteredStore::GrantLease(absl::Duration ttl, Callback<LeaseId> done) {
  store_->GrantLease(ttl, Measure(lease_, std::move(done)));
}

void MeteredStore::KeepAliveLease(LeaseId lease, Callback<absl::Duration> done) {
  store_->KeepAliveLease(lease, Measure(lease_, std::move(done)));
}

void MeteredStore::RevokeLease(LeaseId lease, DoneCallback done) {
  store_->RevokeLease(lease, MeasureDone(lease_, std::move(done)));
}

void MeteredStore::Compact(int64_t revision, DoneCallback done) {
  store_->Compact(revision, MeasureDone(compact_, std::move(done)));
}

}  // namespace capstan::store
