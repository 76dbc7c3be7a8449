// Between the values of store.h and etcd's messages. Pure.
#ifndef CAPSTAN_LIBS_STORE_ETCD_MESSAGES_H_
#define CAPSTAN_LIBS_STORE_ETCD_MESSAGES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "libs/store/store.h"
#include "proto/etcd/etcdserverpb/rpc.pb.h"
#include "proto/etcd/mvccpb/kv.pb.h"

namespace capstan::store {

KeyValue FromEtcd(const mvccpb::KeyValue& kv);
WatchEvent FromEtcd(const mvccpb::Event& event);

etcdserverpb::RangeRequest ToEtcd(const RangeRequest& request);
// `request` is what was asked.
RangeResult FromEtcd(const etcdserverpb::RangeResponse& response, const RangeRequest& request);

// Whether no branch changes anything.
bool IsReadOnly(const TxnRequest& request);

// Keys of which one must know whether they are there, before the transaction can be put into etcd's
// words: a compare of values never holds there for an absent key, and ours may, its value being "".
std::vector<std::string> KeysToLookUp(const TxnRequest& request);

// Which store it was when it was opened: a restore puts the key anew, whatever its value.
struct StoreGuard {
  std::string key{};
  // 0: not guarded.
  int64_t mod_revision = 0;
};

// The transaction as one that takes effect only while `fence_key` is absent, and while each of
// KeysToLookUp is there or not as `present` says. INVALID_ARGUMENT if it is larger than etcd takes,
// with all that goes with it on the wire. A transaction that changes something also takes effect
// only in the store that `guard` names; the other branch tells (WasReplaced), with one operation.
//
// etcd decides the branch by all compares together, and a transaction that came too late must not
// do what it has to do otherwise. If that is a change, or if there is something to look up, the
// whole transaction goes into a branch of another one. A branch of more operations than etcd takes
// at one level is cut into transactions without compares, in order, that stand in its place: etcd
// carries all of them out in the one revision, as if they were one list.
absl::StatusOr<etcdserverpb::TxnRequest> ToEtcd(const TxnRequest& request,
                                                const std::string& fence_key,
                                                const std::map<std::string, bool>& present,
                                                const StoreGuard& guard = {});
// Whether it did not take effect because the store has been replaced since. Arguments as above.
bool WasReplaced(const etcdserverpb::TxnResponse& response, const TxnRequest& request,
                 const StoreGuard& guard);
// Nothing if it did not take effect because `present` was no longer true. Arguments as above.
absl::optional<TxnResult> FromEtcd(const etcdserverpb::TxnResponse& response,
                                   const TxnRequest& request,
                                   const std::map<std::string, bool>& present);

// A transaction that puts one key, whatever is there.
etcdserverpb::TxnRequest PutOne(const std::string& key, const std::string& value, LeaseId lease);

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_ETCD_MESSAGES_H_
