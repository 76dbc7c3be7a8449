#include "libs/store/store_backup.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::store {
namespace {

constexpr char kReasonInUse[] = "STORE_IN_USE";
// Keys deleted by one transaction: etcd holds its lock for so long.
constexpr int64_t kDeletedAtOnce = 1000;

std::string RootOf(const std::string& service) { return absl::StrCat("/capstan/", service, "/"); }

absl::StatusOr<std::pair<int64_t, std::string>> ParseIncarnation(const KeyValue& kv) {
  const std::vector<std::string> parts = absl::StrSplit(kv.value, ' ');
  int64_t incarnation = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &incarnation)) {
    return status::Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT",
                         absl::StrCat(kv.key, " holds '", kv.value, "'"));
  }
  return std::make_pair(incarnation, parts[1]);
}

}  // namespace

std::string RestoreMarkKey(const std::string& service) {
  return absl::StrCat(RootOf(service), "store/restore");
}

std::string IncarnationKey(const std::string& service) {
  return absl::StrCat(RootOf(service), "store/incarnation");
}

std::vector<RangeRequest> StoreRestoreTarget::Ranges() const {
  const std::string root = RootOf(service_);
  const std::string own = absl::StrCat(root, "store/");
  return {{.key = root, .end = own}, {.key = PrefixEnd(own), .end = PrefixEnd(root)}};
}

absl::StatusOr<KeyValue> StoreRestoreTarget::Get(const std::string& key) {
  CAPSTAN_ASSIGN_OR_RETURN(RangeResult found, store_.Range({.key = key}));
  return found.kvs.empty() ? KeyValue() : std::move(found.kvs[0]);
}

absl::Status StoreRestoreTarget::Commit(std::vector<Op> ops) {
  TxnRequest txn;
  txn.compares.push_back(Compare{.key = absl::StrCat(RootOf(service_), "v1/leader"),
                                 .target = Compare::Target::kCreateRevision,
                                 .number = 0});
  if (mark_ != 0) {
    txn.compares.push_back(Compare{.key = RestoreMarkKey(service_), .number = mark_});
  }
  txn.then = std::move(ops);
  txn.otherwise = {RangeRequest{.key = absl::StrCat(RootOf(service_), "v1/leader")}};
  CAPSTAN_ASSIGN_OR_RETURN(const TxnResult result, store_.Txn(std::move(txn)));
  if (result.succeeded) {
    revision_ = result.revision;
    return absl::OkStatus();
  }
  if (result.ranges.empty() || result.ranges[0].kvs.empty()) {
    return status::Error(absl::StatusCode::kFailedPrecondition, kReasonInUse,
                         absl::StrCat("another restore of ", service_,
                                      " has begun on this store: this one has lost it"),
                         {{"service", service_}});
  }
  const std::string& leader = result.ranges[0].kvs[0].value;
  return status::Error(
      absl::StatusCode::kFailedPrecondition, kReasonInUse,
      absl::StrCat(service_, " is running on this store (it leads at ", leader, "): stop it first"),
      {{"service", service_}, {"leader", leader}});
}

absl::StatusOr<RestoreTarget::State> StoreRestoreTarget::Inspect() {
  State state;
  for (RangeRequest range : Ranges()) {
    range.limit = 1;
    CAPSTAN_ASSIGN_OR_RETURN(const RangeResult found, store_.Range(range));
    state.empty = state.empty && found.kvs.empty();
  }
  CAPSTAN_ASSIGN_OR_RETURN(const KeyValue mark, Get(RestoreMarkKey(service_)));
  state.unfinished = mark.version != 0;
  CAPSTAN_ASSIGN_OR_RETURN(const KeyValue stored, Get(IncarnationKey(service_)));
  if (stored.version != 0) {
    CAPSTAN_ASSIGN_OR_RETURN(const auto parsed, ParseIncarnation(stored));
    state.incarnation = parsed.first;
  }
  return state;
}

absl::Status StoreRestoreTarget::CheckNobodyLives() {
  for (RangeRequest range : Ranges()) {
    for (bool more = true; more;) {
      CAPSTAN_ASSIGN_OR_RETURN(const RangeResult found, store_.Range(range));
      for (const KeyValue& kv : found.kvs) {
        if (kv.lease == 0) continue;
        return status::Error(absl::StatusCode::kFailedPrecondition, kReasonInUse,
                             absl::StrCat(service_, " is running on this store (", kv.key,
                                          " is held: '", kv.value, "'): stop it first"),
                             {{"service", service_}, {"key", kv.key}});
      }
      more = found.more;
      if (more) range.key = found.kvs.back().key + '\0';
    }
  }
  return absl::OkStatus();
}

absl::Status StoreRestoreTarget::Begin() {
  CAPSTAN_RETURN_IF_ERROR(CheckNobodyLives());
  CAPSTAN_ASSIGN_OR_RETURN(KeyValue stored, Get(IncarnationKey(service_)));
  if (stored.version == 0) {
    return status::Error(absl::StatusCode::kFailedPrecondition, "NO_INCARNATION",
                         absl::StrCat("the store has no key ", IncarnationKey(service_)));
  }
  mark_ = 0;
  CAPSTAN_RETURN_IF_ERROR(Commit({Put{RestoreMarkKey(service_), "started"},
                                  Put{IncarnationKey(service_), std::move(stored.value)}}));
  mark_ = revision_;
  for (RangeRequest range : Ranges()) {
    range.limit = kDeletedAtOnce;
    while (true) {
      CAPSTAN_ASSIGN_OR_RETURN(const RangeResult found, store_.Range(range));
      if (found.kvs.empty()) break;
      CAPSTAN_RETURN_IF_ERROR(Commit({Delete{found.kvs.front().key, found.kvs.back().key + '\0'}}));
    }
  }
  return absl::OkStatus();
}

absl::Status StoreRestoreTarget::Write(std::vector<Put> puts) {
  std::vector<Op> ops;
  ops.reserve(puts.size());
  for (Put& put : puts) ops.emplace_back(std::move(put));
  return Commit(std::move(ops));
}

absl::Status StoreRestoreTarget::Finish(int64_t incarnation) {
  CAPSTAN_ASSIGN_OR_RETURN(const KeyValue stored, Get(IncarnationKey(service_)));
  CAPSTAN_ASSIGN_OR_RETURN(const auto parsed, ParseIncarnation(stored));
  return Commit({Put{IncarnationKey(service_), absl::StrCat(incarnation, " ", parsed.second)},
                 Delete{RestoreMarkKey(service_), ""}});
}

}  // namespace capstan::store
