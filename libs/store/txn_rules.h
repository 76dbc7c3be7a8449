// The rules of store.h that depend on the request alone; every adapter checks them first.
#ifndef CAPSTAN_LIBS_STORE_TXN_RULES_H_
#define CAPSTAN_LIBS_STORE_TXN_RULES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "libs/store/store.h"

namespace capstan::store {

// INVALID_ARGUMENT, naming the operation, if the request breaks a bound, names an unusable key, or
// touches one key twice in a branch.
absl::Status CheckTxn(const TxnRequest& request, const TxnBounds& bounds = {});
absl::Status CheckRange(const RangeRequest& request);
absl::Status CheckWatch(const WatchRequest& request);
absl::Status CheckTtl(absl::Duration ttl);

// The limit that is meant by RangeRequest::limit.
int64_t EffectiveLimit(int64_t limit);

// Whether [key, end), or the one key if `end` is empty, holds `candidate`.
bool InRange(const std::string& key, const std::string& end, const std::string& candidate);

absl::Status CompactedError(int64_t revision, int64_t compacted);
absl::Status FutureError(int64_t revision, int64_t current);
absl::Status NoLeaseError(LeaseId lease);
absl::Status ClosedError();
absl::Status NoSpaceError(const std::string& what);
absl::Status SlowWatchError();

// Whether the compare holds for the key as it is; nullptr if it is absent.
bool Holds(const Compare& compare, const KeyValue* kv);

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_TXN_RULES_H_
