#ifndef CAPSTAN_LIBS_STORE_ETCD_STORE_H_
#define CAPSTAN_LIBS_STORE_ETCD_STORE_H_

#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "libs/store/etcd_options.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"

namespace capstan::store {

// The Store of several machines: an etcd of version 3.6 or later, over gRPC with TLS. Asynchronous
// throughout; nothing blocks.
//
// Beyond store.h:
// - Transactions are sent one after the other, so their order is that of the calls. An error with
//   OUTCOME_UNKNOWN leaves open whether one took effect, but it does not take effect later than the
//   answer, unless the cluster could not be reached for a whole call_timeout: then the calls that
//   follow fail until that is sure.
// - Other errors: STORE_UNREACHABLE (no member answered in time), STORE_OVERLOADED, STORE_REPLACED
//   (the endpoints lead to another cluster than before: open again), and etcd's own
//   UNAUTHENTICATED and PERMISSION_DENIED.
// - TTLs are rounded up to seconds, and are no shorter than etcd's election time-out times 1.5.
// - etcd takes 128 operations or compares at one level of a transaction, and at a nested level that
//   much less what stands at the levels above: more than about 100 compares leave less room for
//   operations than store.h says. The bytes on the wire, framing included, may be 1.5 MiB.
// - Watches are never ended for being slow: etcd waits for them. They end with STORE_REPLACED,
//   PERMISSION_DENIED, COMPACTED or STORE_CLOSED.
// - History is not compacted by itself: set etcd's --auto-compaction-mode, or call Compact.
class EtcdStore final : public Store {
 public:
  using Opened = absl::AnyInvocable<void(absl::StatusOr<std::unique_ptr<EtcdStore>>)>;

  // Connects, checks the version if the user may see it (root), and finds or stores the
  // incarnation: a new one, above the old, if the keys are found in another cluster than the one
  // they were written to, which is what a restored backup looks like. `done` runs on `strand`,
  // which must outlive the store, also while the store is being opened. INVALID_ARGUMENT,
  // STORE_TOO_OLD, STORE_UNREACHABLE.
  static void Open(EtcdOptions options, Strand* strand, Opened done);
  // On the strand, or after it has stopped. Does not wait for the transaction under way, which gets
  // its own answer; all others get STORE_CLOSED.
  ~EtcdStore() override;

  void Range(RangeRequest request, Callback<RangeResult> done) override;
  void Txn(TxnRequest request, Callback<TxnResult> done) override;
  std::unique_ptr<Watch> StartWatch(
      WatchRequest request, absl::AnyInvocable<void(absl::StatusOr<WatchBatch>)> on_batch) override;
  void GrantLease(absl::Duration ttl, Callback<LeaseId> done) override;
  void KeepAliveLease(LeaseId lease, Callback<absl::Duration> done) override;
  void RevokeLease(LeaseId lease, DoneCallback done) override;
  void Compact(int64_t revision, DoneCallback done) override;
  int64_t incarnation() const override;

 private:
  class Body;
  class Opening;
  explicit EtcdStore(std::shared_ptr<Body> body) : body_(std::move(body)) {}
  const std::shared_ptr<Body> body_;
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_ETCD_STORE_H_
