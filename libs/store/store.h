// An ordered key-value store with etcd's semantics: the only truth of every service.
#ifndef CAPSTAN_LIBS_STORE_STORE_H_
#define CAPSTAN_LIBS_STORE_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace capstan::store {

// Identifies a lease; 0 means none.
using LeaseId = int64_t;

// Bounds that every adapter keeps to; beyond them calls get INVALID_ARGUMENT. Those of a whole
// transaction are what each takes; some take more (Store::txn_bounds). Keys are not empty and do
// not begin with the byte 0xff.
inline constexpr size_t kMaxKeyBytes = 4096;
inline constexpr size_t kMaxValueBytes = 1 << 20;
inline constexpr size_t kMaxTxnOps = 1024;
inline constexpr size_t kMaxTxnCompares = 128;
inline constexpr size_t kMaxTxnBytes = 3 << 19;  // 1.5 MiB
inline constexpr int64_t kDefaultRangeLimit = 1000;
inline constexpr int64_t kMaxRangeLimit = 10000;

// The largest branch of a transaction: operations, and bytes of keys and values.
struct TxnBounds {
  size_t ops = kMaxTxnOps;
  size_t bytes = kMaxTxnBytes;
};

// A key as of some revision.
struct KeyValue {
  std::string key{};
  std::string value{};
  // Revision of the transaction that created the key (after its last deletion), and of the last
  // that changed it.
  int64_t create_revision = 0;
  int64_t mod_revision = 0;
  // Number of changes since creation, from 1.
  int64_t version = 0;
  // Lease that deletes the key when it expires.
  LeaseId lease = 0;

  friend bool operator==(const KeyValue&, const KeyValue&) = default;
};

// Keys in [key, end), in byte order; with an empty `end` the one key.
struct RangeRequest {
  std::string key{};
  std::string end{};
  // At most this many; 0 means 1,000, and more than 10,000 is taken as 10,000.
  int64_t limit = 0;
  // As of this revision; 0 means the newest committed one.
  int64_t revision = 0;
};

struct RangeResult {
  std::vector<KeyValue> kvs{};
  // True if the limit cut the range: go on from `kvs.back().key + '\0'` at `revision`.
  bool more = false;
  // Revision at which the range was read; that of an empty store is 1.
  int64_t revision = 0;
};

// A condition on one key. An absent key has create_revision, mod_revision and version 0, and the
// value "".
struct Compare {
  enum class Target { kVersion, kCreateRevision, kModRevision, kValue };
  enum class Op { kEqual, kNotEqual, kLess, kGreater };
  std::string key{};
  Target target = Target::kModRevision;
  Op op = Op::kEqual;
  // For all targets but kValue.
  int64_t number = 0;
  // For kValue.
  std::string value{};
};

struct Put {
  std::string key{};
  // At most 64 KiB for hot records; the store itself takes up to 1 MiB.
  std::string value{};
  LeaseId lease = 0;
};

// Deletes [key, end), or the one key.
struct Delete {
  std::string key{};
  std::string end{};
};

using Op = std::variant<Put, Delete, RangeRequest>;

// If all compares hold, does `then`, else `otherwise`; atomically. A branch must not put or delete
// the same key twice. A RangeRequest in a branch sees what the branch did before it. At most 128
// compares, and in a branch what Store::txn_bounds says.
struct TxnRequest {
  std::vector<Compare> compares{};
  std::vector<Op> then{};
  std::vector<Op> otherwise{};
};

struct TxnResult {
  // Whether the compares held.
  bool succeeded = false;
  // Revision of the store after the transaction. Every transaction that puts, or deletes something
  // that is there, makes exactly one new revision.
  int64_t revision = 0;
  // For each RangeRequest of the branch, in order.
  std::vector<RangeResult> ranges{};
  // Keys deleted by the branch.
  int64_t deleted = 0;
};

struct WatchEvent {
  enum class Type { kPut, kDelete };
  Type type = Type::kPut;
  // For kDelete only key and mod_revision (that of the deletion) are set.
  KeyValue kv{};
};

// All events of one or more whole revisions, in order. The first batch comes at once, also when it
// is empty, so that a watcher knows where it starts.
struct WatchBatch {
  // The watcher has now seen everything up to and including this revision. A batch without events
  // is a progress notification.
  int64_t revision = 0;
  std::vector<WatchEvent> events{};
};

struct WatchRequest {
  // [key, end), or the one key.
  std::string key{};
  std::string end{};
  // First revision wanted, also one that is not there yet; 0 means what comes after the newest
  // committed one.
  int64_t start_revision = 0;
};

// Reasons (status::Reason) of the errors below.
inline constexpr char kReasonCompacted[] = "COMPACTED";      // OUT_OF_RANGE
inline constexpr char kReasonFuture[] = "FUTURE_REVISION";   // OUT_OF_RANGE
inline constexpr char kReasonNoLease[] = "LEASE_NOT_FOUND";  // NOT_FOUND
inline constexpr char kReasonNoSpace[] = "NO_SPACE";         // RESOURCE_EXHAUSTED
inline constexpr char kReasonClosed[] = "STORE_CLOSED";      // UNAVAILABLE

template <typename T>
using Callback = absl::AnyInvocable<void(absl::StatusOr<T>)>;
using DoneCallback = absl::AnyInvocable<void(absl::Status)>;

// Ends its watch when destroyed; no callback runs afterwards, if it is destroyed on the strand.
class Watch {
 public:
  virtual ~Watch() = default;
};

// Guarantees, which conformance.h tests on every adapter:
// - Linearisable: an answered transaction or range took effect at one point between call and
// answer.
// - Durable: a transaction is answered only once it would survive a crash of the process and of the
//   machine. Transactions of one caller take effect in the order of the calls.
// - An error other than INVALID_ARGUMENT leaves open whether the transaction took effect; with
//   UNAVAILABLE/STORE_CLOSED and RESOURCE_EXHAUSTED/NO_SPACE it did not.
// - A watch delivers every event of its range, once, in order, in whole revisions, or ends with
//   COMPACTED; a slow watcher is ended with ABORTED when its bound is passed and may resume.
// - A lease expires no sooner than its TTL after the last answered grant or keep-alive, its keys
//   vanish in one transaction, and its remaining time starts afresh when the store is reopened.
// Methods may be called from any thread; callbacks run on the strand given to the store's maker,
// one for each call also when the store is closed first (then with STORE_CLOSED).
class Store {
 public:
  virtual ~Store() = default;

  virtual void Range(RangeRequest request, Callback<RangeResult> done) = 0;
  virtual void Txn(TxnRequest request, Callback<TxnResult> done) = 0;
  // Never less than the defaults, and always the same of one store.
  virtual TxnBounds txn_bounds() const { return {}; }
  // The callback gets batches until the watch is destroyed or an error, which is the last call.
  virtual std::unique_ptr<Watch> StartWatch(
      WatchRequest request, absl::AnyInvocable<void(absl::StatusOr<WatchBatch>)> on_batch) = 0;

  // `ttl` is at least 1 s outside tests.
  virtual void GrantLease(absl::Duration ttl, Callback<LeaseId> done) = 0;
  // Answers with the lease's full TTL, counted anew from a point not before the call.
  virtual void KeepAliveLease(LeaseId lease, Callback<absl::Duration> done) = 0;
  // Deletes the lease and its keys.
  virtual void RevokeLease(LeaseId lease, DoneCallback done) = 0;

  // Forgets history before `revision`: ranges at, and watches from, an older one get COMPACTED.
  // Of a revision that is forgotten already: OK; of one that is not there yet: FUTURE_REVISION.
  virtual void Compact(int64_t revision, DoneCallback done) = 0;

  // Changes when the store is restored from a backup; see DESIGN.md §4.
  virtual int64_t incarnation() const = 0;
};

// The end of the range of all keys that begin with `prefix`; for "", that of all keys.
std::string PrefixEnd(const std::string& prefix);

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_STORE_H_
