#include "libs/store/txn_rules.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::store {
namespace {

constexpr char kReasonInvalid[] = "INVALID_STORE_REQUEST";

absl::Status Invalid(const std::string& message) {
  return status::Error(absl::StatusCode::kInvalidArgument, kReasonInvalid, message);
}

absl::Status CheckKey(const std::string& key) {
  if (key.empty()) return Invalid("the key is empty");
  if (key.size() > kMaxKeyBytes) {
    return Invalid(absl::StrCat("the key has ", key.size(), " bytes, at most ", kMaxKeyBytes));
  }
  if (static_cast<unsigned char>(key.front()) == 0xff) return Invalid("the key begins with 0xff");
  return absl::OkStatus();
}

absl::Status CheckSpan(const std::string& key, const std::string& end) {
  CAPSTAN_RETURN_IF_ERROR(CheckKey(key));
  if (!end.empty() && end <= key) return Invalid("the range ends before it begins");
  if (end.size() > kMaxKeyBytes) return Invalid("the end of the range is too long");
  return absl::OkStatus();
}

using Span = std::pair<std::string, std::string>;  // [first, second)

absl::Status CheckBranch(const std::vector<Op>& ops, const char* branch, const TxnBounds& bounds) {
  if (ops.size() > bounds.ops) {
    return Invalid(absl::StrCat(branch, " has ", ops.size(), " operations, at most ", bounds.ops));
  }
  std::vector<Span> spans;
  size_t bytes = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    absl::Status checked;
    if (const auto* put = std::get_if<Put>(&ops[i])) {
      checked = CheckKey(put->key);
      if (checked.ok() && put->value.size() > kMaxValueBytes) {
        checked = Invalid(
            absl::StrCat("the value has ", put->value.size(), " bytes, at most ", kMaxValueBytes));
      }
      bytes += put->key.size() + put->value.size();
      spans.emplace_back(put->key, put->key + '\0');
    } else if (const auto* gone = std::get_if<Delete>(&ops[i])) {
      checked = CheckSpan(gone->key, gone->end);
      bytes += gone->key.size() + gone->end.size();
      spans.emplace_back(gone->key, gone->end.empty() ? gone->key + '\0' : gone->end);
    } else {
      checked = CheckRange(std::get<RangeRequest>(ops[i]));
    }
    if (!checked.ok()) return status::Annotate(checked, absl::StrCat(branch, "[", i, "]"));
  }
  if (bytes > bounds.bytes) {
    return Invalid(absl::StrCat(branch, " has ", bytes, " bytes, at most ", bounds.bytes));
  }
  std::sort(spans.begin(), spans.end());
  for (size_t i = 1; i < spans.size(); ++i) {
    if (spans[i].first < spans[i - 1].second) {
      return Invalid(absl::StrCat(branch, " touches the key '", spans[i].first, "' twice"));
    }
  }
  return absl::OkStatus();
}

template <typename T>
bool Ordered(Compare::Op op, const T& actual, const T& wanted) {
  switch (op) {
    case Compare::Op::kEqual:
      return actual == wanted;
    case Compare::Op::kNotEqual:
      return actual != wanted;
    case Compare::Op::kLess:
      return actual < wanted;
    case Compare::Op::kGreater:
      return actual > wanted;
  }
  return false;
}

}  // namespace

absl::Status CheckTxn(const TxnRequest& request, const TxnBounds& bounds) {
  if (request.compares.size() > kMaxTxnCompares) {
    return Invalid(absl::StrCat("compares has ", request.compares.size(), " conditions, at most ",
                                kMaxTxnCompares));
  }
  for (const Compare& compare : request.compares) CAPSTAN_RETURN_IF_ERROR(CheckKey(compare.key));
  CAPSTAN_RETURN_IF_ERROR(CheckBranch(request.then, "then", bounds));
  return CheckBranch(request.otherwise, "otherwise", bounds);
}

absl::Status CheckRange(const RangeRequest& request) {
  if (request.limit < 0) return Invalid("the limit is negative");
  if (request.revision < 0) return Invalid("the revision is negative");
  return CheckSpan(request.key, request.end);
}

absl::Status CheckWatch(const WatchRequest& request) {
  if (request.start_revision < 0) return Invalid("the start revision is negative");
  return CheckSpan(request.key, request.end);
}

absl::Status CheckTtl(absl::Duration ttl) {
  if (ttl < absl::Milliseconds(1) || ttl > absl::Hours(24 * 365)) {
    return Invalid("the TTL must lie between 1 ms and a year");
  }
  return absl::OkStatus();
}

int64_t EffectiveLimit(int64_t limit) {
  return limit == 0 ? kDefaultRangeLimit : std::min(limit, kMaxRangeLimit);
}

bool InRange(const std::string& key, const std::string& end, const std::string& candidate) {
  if (end.empty()) return candidate == key;
  return candidate >= key && candidate < end;
}

absl::Status CompactedError(int64_t revision, int64_t compacted) {
  return status::Error(
      absl::StatusCode::kOutOfRange, kReasonCompacted,
      absl::StrCat("revision ", revision, " is forgotten; the oldest kept is ", compacted),
      {{"revision", absl::StrCat(revision)}, {"compact_revision", absl::StrCat(compacted)}});
}

absl::Status FutureError(int64_t revision, int64_t current) {
  return status::Error(
      absl::StatusCode::kOutOfRange, kReasonFuture,
      absl::StrCat("revision ", revision, " is not there yet; the newest is ", current),
      {{"revision", absl::StrCat(revision)}, {"current_revision", absl::StrCat(current)}});
}

absl::Status NoLeaseError(LeaseId lease) {
  return status::Error(absl::StatusCode::kNotFound, kReasonNoLease,
                       absl::StrCat("lease ", lease, " does not exist or has expired"),
                       {{"lease", absl::StrCat(lease)}});
}

absl::Status ClosedError() {
  return status::Error(absl::StatusCode::kUnavailable, kReasonClosed, "the store is closed");
}

absl::Status NoSpaceError(const std::string& what) {
  return status::Error(absl::StatusCode::kResourceExhausted, kReasonNoSpace,
                       absl::StrCat("no space left for the store: ", what));
}

absl::Status SlowWatchError() {
  return absl::AbortedError(
      "the watcher fell behind its bound; resume from the last revision seen");
}

bool Holds(const Compare& compare, const KeyValue* kv) {
  static const KeyValue* const kAbsent = new KeyValue();
  const KeyValue& actual = kv == nullptr ? *kAbsent : *kv;
  switch (compare.target) {
    case Compare::Target::kVersion:
      return Ordered(compare.op, actual.version, compare.number);
    case Compare::Target::kCreateRevision:
      return Ordered(compare.op, actual.create_revision, compare.number);
    case Compare::Target::kModRevision:
      return Ordered(compare.op, actual.mod_revision, compare.number);
    case Compare::Target::kValue:
      return Ordered(compare.op, actual.value, compare.value);
  }
  return false;
}

}  // namespace capstan::store
