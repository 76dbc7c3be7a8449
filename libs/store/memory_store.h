#ifndef CAPSTAN_LIBS_STORE_MEMORY_STORE_H_
#define CAPSTAN_LIBS_STORE_MEMORY_STORE_H_

#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/store/mvcc_map.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"

namespace capstan::store {

// What a MemoryStore has committed: the "disk" that outlives it. Copy it for a backup. Not
// thread-safe; used by one open MemoryStore at a time.
struct MemoryImage {
  MvccMap map;
  std::map<LeaseId, absl::Duration> leases;
  LeaseId next_lease = 1;
  int64_t incarnation = 1;
};

// The Store for tests and simulations: it behaves as the real adapters do (conformance.h), but its
// disk is a MemoryImage, and it fails, stalls and crashes on command.
//
//   auto disk = std::make_shared<MemoryImage>();
//   auto store = std::make_unique<MemoryStore>(&strand, disk);
//   ...
//   store->Crash();                       // unanswered calls stay unanswered, the disk stays
//   engine.reset(); store.reset();
//   store = std::make_unique<MemoryStore>(&strand, disk);
//
// Destroying it without Crash() is an orderly close: open calls get STORE_CLOSED.
class MemoryStore final : public Store {
 public:
  // `strand` must outlive the store; null `image` means a fresh one.
  explicit MemoryStore(Strand* strand, std::shared_ptr<MemoryImage> image = nullptr);
  ~MemoryStore() override;

  void Range(RangeRequest request, Callback<RangeResult> done) override;
  void Txn(TxnRequest request, Callback<TxnResult> done) override;
  TxnBounds txn_bounds() const override { return txn_bounds_; }
  std::unique_ptr<Watch> StartWatch(
      WatchRequest request, absl::AnyInvocable<void(absl::StatusOr<WatchBatch>)> on_batch) override;
  void GrantLease(absl::Duration ttl, Callback<LeaseId> done) override;
  void KeepAliveLease(LeaseId lease, Callback<absl::Duration> done) override;
  void RevokeLease(LeaseId lease, DoneCallback done) override;
  void Compact(int64_t revision, DoneCallback done) override;
  int64_t incarnation() const override;

  // Test hooks; call them on the strand.

  // The next transaction to be committed gets `error` instead, without taking effect...
  void FailNextTxn(absl::Status error);
  // ...or after taking effect: its caller cannot know.
  void FailNextTxnAfterCommit(absl::Status error);
  // Commits take this long from now on (0 at first); what is submitted meanwhile goes with the next
  // one. Ranges, keep-alives and watches are not delayed.
  void SetCommitDelay(absl::Duration delay);
  // Before the store is used.
  void SetTxnBounds(const TxnBounds& bounds) { txn_bounds_ = bounds; }
  // While full, transactions that put get NO_SPACE; those that only delete go through.
  void SetFull(bool full);
  // While cut off, every call and keep-alive gets UNAVAILABLE and takes no effect: the store's
  // server is away. Leases go on running.
  void SetUnreachable(bool unreachable);
  // Ends every watch with ABORTED, as slow watchers are ended.
  void AbortWatches();
  // Stops like a killed process. The oldest `pending_that_commit` of the transactions under way
  // still reach the disk; no callback runs from now on.
  void Crash(size_t pending_that_commit = 0);

  const std::shared_ptr<MemoryImage>& image() const;
  // Commits made by this object: for tests of batching.
  int64_t commits() const;

 private:
  class Body;
  const std::shared_ptr<Body> body_;
  TxnBounds txn_bounds_;
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_MEMORY_STORE_H_
