#include "libs/store/etcd_messages.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/store/txn_rules.h"

namespace capstan::store {
namespace {

// etcd's --max-request-bytes, by default, and what its log entry adds to a transaction.
constexpr size_t kMaxRequestBytes = 3 << 19;
constexpr size_t kEntryBytes = 512;
// etcd's --max-txn-ops, by default: operations or compares at one level of a transaction.
constexpr size_t kEtcdLevelOps = 128;

bool Writes(const std::vector<Op>& ops) {
  return std::any_of(ops.begin(), ops.end(),
                     [](const Op& op) { return !std::holds_alternative<RangeRequest>(op); });
}

etcdserverpb::Compare ToEtcd(const Compare& compare) {
  etcdserverpb::Compare out;
  out.set_key(compare.key);
  switch (compare.op) {
    case Compare::Op::kEqual:
      out.set_result(etcdserverpb::Compare::EQUAL);
      break;
    case Compare::Op::kNotEqual:
      out.set_result(etcdserverpb::Compare::NOT_EQUAL);
      break;
    case Compare::Op::kLess:
      out.set_result(etcdserverpb::Compare::LESS);
      break;
    case Compare::Op::kGreater:
      out.set_result(etcdserverpb::Compare::GREATER);
      break;
  }
  switch (compare.target) {
    case Compare::Target::kVersion:
      out.set_target(etcdserverpb::Compare::VERSION);
      out.set_version(compare.number);
      break;
    case Compare::Target::kCreateRevision:
      out.set_target(etcdserverpb::Compare::CREATE);
      out.set_create_revision(compare.number);
      break;
    case Compare::Target::kModRevision:
      out.set_target(etcdserverpb::Compare::MOD);
      out.set_mod_revision(compare.number);
      break;
    case Compare::Target::kValue:
      out.set_target(etcdserverpb::Compare::VALUE);
      out.set_value(compare.value);
      break;
  }
  return out;
}

etcdserverpb::Compare IsAbsent(const std::string& key) {
  etcdserverpb::Compare compare;
  compare.set_key(key);
  compare.set_target(etcdserverpb::Compare::VERSION);
  compare.set_version(0);
  return compare;
}

using RequestOps = google::protobuf::RepeatedPtrField<etcdserverpb::RequestOp>;
using ResponseOps = google::protobuf::RepeatedPtrField<etcdserverpb::ResponseOp>;

void AddOp(const Op& op, RequestOps* out) {
  etcdserverpb::RequestOp* added = out->Add();
  if (const auto* put = std::get_if<Put>(&op)) {
    added->mutable_request_put()->set_key(put->key);
    added->mutable_request_put()->set_value(put->value);
    added->mutable_request_put()->set_lease(put->lease);
  } else if (const auto* gone = std::get_if<Delete>(&op)) {
    added->mutable_request_delete_range()->set_key(gone->key);
    added->mutable_request_delete_range()->set_range_end(gone->end);
  } else {
    *added->mutable_request_range() = ToEtcd(std::get<RangeRequest>(op));
  }
}

// In parts of `part_size`, each a transaction without compares; 0: as they are.
void AddOps(const std::vector<Op>& ops, size_t part_size, RequestOps* out) {
  for (size_t i = 0; i < ops.size(); ++i) {
    if (part_size == 0) {
      AddOp(ops[i], out);
    } else {
      if (i % part_size == 0) out->Add()->mutable_request_txn();
      AddOp(ops[i], out->rbegin()->mutable_request_txn()->mutable_success());
    }
  }
}

// The largest part into which both branches can be cut, where etcd takes `limit` at their level, of
// which `compares` stand there and `extra` operations besides in one branch; 0 if they need not be
// cut. What stands at a level, the most of compares and of either branch, is what a level below it
// lacks (checkTxnRequest in etcd's server/etcdserver/api/v3rpc/key.go).
absl::optional<size_t> PartSize(size_t ops, size_t compares, size_t extra, size_t limit) {
  if (std::max(ops + extra, compares) <= limit) return 0;
  for (size_t size = limit; size > 0; --size) {
    const size_t parts = (ops + size - 1) / size;
    if (size + std::max(parts + extra, compares) <= limit) return size;
  }
  return absl::nullopt;
}

// The answers to the operations of a branch, cut into parts or not.
void Flatten(const ResponseOps& ops, std::vector<const etcdserverpb::ResponseOp*>* out) {
  for (const etcdserverpb::ResponseOp& op : ops) {
    if (op.has_response_txn()) {
      for (const etcdserverpb::ResponseOp& part : op.response_txn().responses()) {
        out->push_back(&part);
      }
    } else {
      out->push_back(&op);
    }
  }
}

// A compare that never holds: versions are not negative.
etcdserverpb::Compare Never(const std::string& key) {
  etcdserverpb::Compare compare = IsAbsent(key);
  compare.set_result(etcdserverpb::Compare::LESS);
  return compare;
}

// Whether it holds of an absent key, which etcd denies.
bool HoldsOfAbsent(const Compare& compare) {
  return compare.target == Compare::Target::kValue && Holds(compare, nullptr);
}

// Whether the transaction goes into a branch of another one.
bool IsNested(const TxnRequest& request, const std::map<std::string, bool>& present) {
  return !present.empty() || (!IsReadOnly(request) && Writes(request.otherwise));
}

bool IsGuarded(const TxnRequest& request, const StoreGuard& guard) {
  return guard.mod_revision != 0 && !IsReadOnly(request);
}

// A read that costs nothing. etcd answers a transaction without operations from what the asked
// member has, which may be old.
void AddAnchor(const std::string& key,
               google::protobuf::RepeatedPtrField<etcdserverpb::RequestOp>* out) {
  etcdserverpb::RangeRequest* range = out->Add()->mutable_request_range();
  range->set_key(key);
  range->set_count_only(true);
}

absl::Status Invalid(const std::string& message) {
  return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_STORE_REQUEST", message);
}

}  // namespace

KeyValue FromEtcd(const mvccpb::KeyValue& kv) {
  return {kv.key(), kv.value(), kv.create_revision(), kv.mod_revision(), kv.version(), kv.lease()};
}

WatchEvent FromEtcd(const mvccpb::Event& event) {
  WatchEvent out;
  if (event.type() == mvccpb::Event::DELETE) {
    out.type = WatchEvent::Type::kDelete;
    out.kv.key = event.kv().key();
    out.kv.mod_revision = event.kv().mod_revision();
  } else {
    out.kv = FromEtcd(event.kv());
  }
  return out;
}

etcdserverpb::RangeRequest ToEtcd(const RangeRequest& request) {
  etcdserverpb::RangeRequest out;
  out.set_key(request.key);
  out.set_range_end(request.end);
  out.set_limit(EffectiveLimit(request.limit));
  out.set_revision(request.revision);
  return out;
}

RangeResult FromEtcd(const etcdserverpb::RangeResponse& response, const RangeRequest& request) {
  RangeResult result;
  result.kvs.reserve(response.kvs_size());
  for (const mvccpb::KeyValue& kv : response.kvs()) result.kvs.push_back(FromEtcd(kv));
  result.more = response.more();
  result.revision = request.revision != 0 ? request.revision : response.header().revision();
  return result;
}

bool IsReadOnly(const TxnRequest& request) {
  return !Writes(request.then) && !Writes(request.otherwise);
}

std::vector<std::string> KeysToLookUp(const TxnRequest& request) {
  std::vector<std::string> keys;
  for (const Compare& compare : request.compares) {
    if (HoldsOfAbsent(compare)) keys.push_back(compare.key);
  }
  return keys;
}

absl::StatusOr<etcdserverpb::TxnRequest> ToEtcd(const TxnRequest& request,
                                                const std::string& fence_key,
                                                const std::map<std::string, bool>& present,
                                                const StoreGuard& guard) {
  etcdserverpb::TxnRequest out;
  etcdserverpb::TxnRequest* inner = &out;
  const bool nested = IsNested(request, present);
  if (nested) {
    for (const auto& [key, there] : present) {
      *out.add_compare() = IsAbsent(key);
      if (there) {
        out.mutable_compare(out.compare_size() - 1)->set_result(etcdserverpb::Compare::GREATER);
      }
    }
    inner = out.add_success()->mutable_request_txn();
  }
  if (!IsReadOnly(request)) *out.add_compare() = IsAbsent(fence_key);
  const bool guarded = IsGuarded(request, guard);
  if (guarded) {
    *out.add_compare() = ToEtcd(Compare{.key = guard.key, .number = guard.mod_revision});
  }
  for (const Compare& compare : request.compares) {
    const auto found = present.find(compare.key);
    if (found != present.end() && !found->second && compare.target == Compare::Target::kValue) {
      if (!HoldsOfAbsent(compare)) *inner->add_compare() = Never(compare.key);
    } else {
      *inner->add_compare() = ToEtcd(compare);
    }
  }
  // The transaction that holds a nested one stands above it with its compares.
  const size_t above = nested ? std::max(1, out.compare_size()) : 0;
  const absl::optional<size_t> part_size =
      above >= kEtcdLevelOps
          ? absl::nullopt
          : PartSize(std::max(request.then.size(), request.otherwise.size()), inner->compare_size(),
                     guarded && !nested ? 1 : 0, kEtcdLevelOps - above);
  if (!part_size.has_value()) {
    return Invalid(absl::StrCat("etcd takes fewer than ",
                                std::max(request.then.size(), request.otherwise.size()),
                                " operations beside ", request.compares.size(), " compares"));
  }
  AddOps(request.then, *part_size, inner->mutable_success());
  AddOps(request.otherwise, *part_size, inner->mutable_failure());
  if (guarded) out.add_failure()->mutable_request_range()->set_key(guard.key);
  if (!nested && request.then.empty() && request.otherwise.empty()) {
    const std::string& key = request.compares.empty() ? fence_key : request.compares[0].key;
    AddAnchor(key, inner->mutable_success());
    AddAnchor(key, inner->mutable_failure());
  }
  const size_t bytes = out.ByteSizeLong() + kEntryBytes;
  if (bytes > kMaxRequestBytes) {
    return Invalid(absl::StrCat("the transaction has ", bytes, " bytes on the wire, etcd takes ",
                                kMaxRequestBytes));
  }
  return out;
}

bool WasReplaced(const etcdserverpb::TxnResponse& response, const TxnRequest& request,
                 const StoreGuard& guard) {
  if (!IsGuarded(request, guard) || response.succeeded() || response.responses_size() == 0) {
    return false;
  }
  const auto& found = response.responses(response.responses_size() - 1).response_range();
  return found.kvs_size() != 1 || found.kvs(0).mod_revision() != guard.mod_revision;
}

absl::optional<TxnResult> FromEtcd(const etcdserverpb::TxnResponse& response,
                                   const TxnRequest& request,
                                   const std::map<std::string, bool>& present) {
  const etcdserverpb::TxnResponse* inner = &response;
  if (IsNested(request, present)) {
    if (!response.succeeded() || response.responses_size() != 1) return absl::nullopt;
    inner = &response.responses(0).response_txn();
  }
  TxnResult result;
  result.succeeded = inner->succeeded();
  result.revision = response.header().revision();
  const std::vector<Op>& branch = result.succeeded ? request.then : request.otherwise;
  // One result for each read that was asked for, whatever the server makes of it.
  std::vector<const etcdserverpb::ResponseOp*> answers;
  Flatten(inner->responses(), &answers);
  for (size_t i = 0; i < branch.size(); ++i) {
    const etcdserverpb::ResponseOp& op =
        i < answers.size() ? *answers[i] : etcdserverpb::ResponseOp::default_instance();
    if (const auto* range = std::get_if<RangeRequest>(&branch[i])) {
      result.ranges.push_back(FromEtcd(op.response_range(), *range));
    } else if (op.has_response_delete_range()) {
      // Whatever a server says: at most what can be counted.
      const int64_t deleted = std::max<int64_t>(op.response_delete_range().deleted(), 0);
      result.deleted += std::min(deleted, std::numeric_limits<int64_t>::max() - result.deleted);
    }
  }
  return result;
}

etcdserverpb::TxnRequest PutOne(const std::string& key, const std::string& value, LeaseId lease) {
  etcdserverpb::TxnRequest request;
  AddOp(Put{key, value, lease}, request.mutable_success());
  return request;
}

}  // namespace capstan::store
