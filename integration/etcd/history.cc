#include "integration/etcd/history.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "libs/random/random.h"
#include "libs/status/error.h"

namespace capstan::store {
namespace {

using Kind = RegisterOperation::Kind;

// Errors after which store.h, or the adapter, promises that nothing took effect.
bool TookNoEffect(const absl::Status& status) {
  const std::string reason = status::Reason(status);
  return absl::IsInvalidArgument(status) || reason == kReasonNoSpace || reason == kReasonClosed ||
         reason == "STORE_OVERLOADED";
}

bool IsSettled(const absl::Status& status) {
  const auto info = status::GetErrorInfo(status);
  if (!info.has_value()) return false;
  const auto settled = info->metadata.find("settled");
  return settled != info->metadata.end() && settled->second == "true";
}

}  // namespace

void History::Allow(int calls) {
  absl::MutexLock lock(&mutex_);
  allowed_ += calls;
}

void History::Await(absl::Duration patience) {
  absl::MutexLock lock(&mutex_);
  const auto all = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return done_ >= allowed_; };
  mutex_.AwaitWithTimeout(absl::Condition(&all), patience);
}

void History::End() {
  absl::MutexLock lock(&mutex_);
  ended_ = true;
}

bool History::Begin(int64_t* called_at) {
  absl::MutexLock lock(&mutex_);
  const auto next = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return begun_ < allowed_ || ended_;
  };
  mutex_.Await(absl::Condition(&next));
  if (begun_ >= allowed_) return false;
  ++begun_;
  *called_at = ++clock_;
  return true;
}

void History::RunCaller(Store* store, const std::string& root, uint64_t seed) {
  Random random(seed);
  std::string last_seen;
  RegisterOperation begun;
  for (int i = 0; Begin(&begun.called_at); ++i) {
    const std::string key = absl::StrCat(root, random.Below(3));
    const std::string fresh = absl::StrCat(seed, "-", i);
    RegisterOperation op = begun;
    op.kind = static_cast<Kind>(random.Below(3));
    TxnRequest txn;
    if (op.kind == Kind::kWrite) {
      op.value = fresh;
      txn.then.push_back(Put{key, fresh});
    } else if (op.kind == Kind::kCompareAndSet) {
      op.value = last_seen;
      op.desired = fresh;
      txn.compares.push_back({.key = key, .target = Compare::Target::kValue, .value = last_seen});
      txn.then.push_back(Put{key, fresh});
    }
    absl::Notification done;
    absl::Status status;
    int64_t revision = 0;
    if (op.kind == Kind::kRead) {
      store->Range({.key = key}, [&](absl::StatusOr<RangeResult> result) {
        status = result.status();
        if (result.ok()) {
          op.value = result->kvs.empty() ? "" : result->kvs[0].value;
          last_seen = op.value;
          revision = result->revision;
        }
        done.Notify();
      });
    } else {
      store->Txn(std::move(txn), [&](absl::StatusOr<TxnResult> result) {
        status = result.status();
        if (result.ok()) {
          op.succeeded = result->succeeded;
          revision = result->revision;
        }
        done.Notify();
      });
    }
    done.WaitForNotification();
    Note(key, std::move(op), status, revision);
  }
}

void History::Note(const std::string& key, RegisterOperation op, const absl::Status& status,
                   int64_t revision) {
  absl::MutexLock lock(&mutex_);
  ++done_;
  op.returned_at = ++clock_;
  if (status.ok()) {
    ++counts_.answered;
    const bool wrote = op.kind == Kind::kWrite || (op.kind == Kind::kCompareAndSet && op.succeeded);
    revisions_.push_back({op.called_at, op.returned_at, revision, wrote, key});
  } else if (op.kind == Kind::kRead || TookNoEffect(status)) {
    ++counts_.refused;
    return;
  } else if (IsSettled(status)) {
    ++counts_.settled;
    op.settled_unknown = true;
  } else {
    ++counts_.unknown;
    op.returned_at = std::numeric_limits<int64_t>::max();
  }
  by_key_[key].push_back(std::move(op));
}

std::string History::Contradiction() const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, operations] : by_key_) {
    if (!IsLinearizable(operations))
      return absl::StrCat("no order explains what was seen of ", key);
  }
  // Revisions order all keys together: what returned before another was called is not newer.
  for (const Revision& a : revisions_) {
    for (const Revision& b : revisions_) {
      if (a.returned_at >= b.called_at) continue;
      if (a.revision > b.revision || (b.wrote && a.revision == b.revision)) {
        return absl::StrCat("revision ", a.revision, " of ", a.key, " was answered before ",
                            b.revision, " of ", b.key, " was asked for");
      }
    }
  }
  return "";
}

std::map<int64_t, std::string> History::writes() const {
  absl::MutexLock lock(&mutex_);
  std::map<int64_t, std::string> writes;
  for (const Revision& one : revisions_) {
    if (one.wrote) writes[one.revision] = one.key;
  }
  return writes;
}

History::Counts History::counts() const {
  absl::MutexLock lock(&mutex_);
  return counts_;
}

}  // namespace capstan::store
