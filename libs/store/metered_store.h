#ifndef CAPSTAN_LIBS_STORE_METERED_STORE_H_
#define CAPSTAN_LIBS_STORE_METERED_STORE_H_

#include <memory>

#include "libs/metrics/registry.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"

namespace capstan::store {

// Another store, measured. Metrics, by `operation` (`range`, `txn`, `lease`, `compact`; the second
// also `watch`):
//   store_operation_duration_seconds   from the call to its answer, in the store's own order
//   store_errors_total                 answers that are the store's fault or its machine's; what a
//                                      caller did wrong (INVALID_ARGUMENT, OUT_OF_RANGE, NOT_FOUND)
//                                      is not counted
// Its guarantees are the other store's.
class MeteredStore final : public Store {
 public:
  // The clock and the registry must outlive it.
  MeteredStore(std::unique_ptr<Store> store, const Clock* clock, metrics::Registry* registry);
  ~MeteredStore() override;

  void Range(RangeRequest request, Callback<RangeResult> done) override;
  void Txn(TxnRequest request, Callback<TxnResult> done) override;
  std::unique_ptr<Watch> StartWatch(
      WatchRequest request, absl::AnyInvocable<void(absl::StatusOr<WatchBatch>)> on_batch) override;
  void GrantLease(absl::Duration ttl, Callback<LeaseId> done) override;
  void KeepAliveLease(LeaseId lease, Callback<absl::Duration> done) override;
  void RevokeLease(LeaseId lease, DoneCallback done) override;
  void Compact(int64_t revision, DoneCallback done) override;
  int64_t incarnation() const override { return store_->incarnation(); }

 private:
  struct Operation {
    metrics::Histogram duration;
    metrics::Counter errors;
  };
  // Measures until the answer, which is then given on.
  template <typename T>
  Callback<T> Measure(Operation operation, Callback<T> done);
  DoneCallback MeasureDone(Operation operation, DoneCallback done);

  // Handles of the registry's: kept by value in callbacks, which may come after this object went.
  const Clock* const clock_;
  const Operation range_;
  const Operation txn_;
  const Operation lease_;
  const Operation compact_;
  const metrics::Counter watch_errors_;
  // Last, since closing it calls back.
  const std::unique_ptr<Store> store_;
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_METERED_STORE_H_
