#ifndef CAPSTAN_LIBS_STORE_MVCC_MAP_H_
#define CAPSTAN_LIBS_STORE_MVCC_MAP_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/store/store.h"

namespace capstan::store {

// The state of an ordered key-value store with its history, in memory and without time: what
// MemoryStore keeps behind its strand. Requests have passed txn_rules.h. For one thread; copyable,
// which is a backup.
class MvccMap {
 public:
  int64_t revision() const { return revision_; }
  // The oldest revision that ranges and watches may ask for.
  int64_t compacted() const { return compacted_; }

  absl::StatusOr<RangeResult> Range(const RangeRequest& request) const;

  // Nothing is applied on an error: LEASE_NOT_FOUND, COMPACTED, FUTURE_REVISION.
  absl::StatusOr<TxnResult> Apply(const TxnRequest& request,
                                  absl::FunctionRef<bool(LeaseId)> lease_exists);

  // Events of whole revisions from `from` on, in order, until `max_bytes` is passed; `revision`
  // of the batch is the last one looked at (from − 1 if there is none yet).
  absl::StatusOr<WatchBatch> Events(const std::string& key, const std::string& end, int64_t from,
                                    size_t max_bytes) const;

  absl::Status Compact(int64_t revision);

  // Keys that hang on the lease now.
  std::vector<std::string> KeysOfLease(LeaseId lease) const;

 private:
  // The states of a key, oldest first, each until the next one's mod_revision; one with version 0
  // is a deletion.
  using Versions = std::vector<KeyValue>;

  // The key's state at `revision`, nullptr if it is absent.
  const KeyValue* At(const Versions& versions, int64_t revision) const;
  const KeyValue* Find(const std::string& key, int64_t revision) const;
  RangeResult RangeAt(const RangeRequest& request, int64_t revision) const;
  void DoPut(const Put& put, int64_t revision);
  int64_t DoDelete(const Delete& gone, int64_t revision);

  int64_t revision_ = 1;
  int64_t compacted_ = 1;
  std::map<std::string, Versions> keys_;
  // Keys that a revision changed, in the order of its operations.
  std::map<int64_t, std::vector<std::string>> changes_;
  std::map<LeaseId, std::set<std::string>> lease_keys_;
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_MVCC_MAP_H_
