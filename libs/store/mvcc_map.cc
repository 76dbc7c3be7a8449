#include "libs/store/mvcc_map.h"

#include <algorithm>
#include <utility>

#include "libs/status/status_macros.h"
#include "libs/store/txn_rules.h"

namespace capstan::store {

const KeyValue* MvccMap::At(const Versions& versions, int64_t revision) const {
  const auto after =
      std::upper_bound(versions.begin(), versions.end(), revision,
                       [](int64_t r, const KeyValue& version) { return r < version.mod_revision; });
  if (after == versions.begin()) return nullptr;
  const KeyValue& kv = *std::prev(after);
  return kv.version == 0 ? nullptr : &kv;
}

const KeyValue* MvccMap::Find(const std::string& key, int64_t revision) const {
  const auto it = keys_.find(key);
  return it == keys_.end() ? nullptr : At(it->second, revision);
}

RangeResult MvccMap::RangeAt(const RangeRequest& request, int64_t revision) const {
  RangeResult result;
  result.revision = revision;
  if (request.end.empty()) {
    if (const KeyValue* kv = Find(request.key, revision)) result.kvs.push_back(*kv);
    return result;
  }
  const size_t limit = static_cast<size_t>(EffectiveLimit(request.limit));
  const auto end = keys_.lower_bound(request.end);
  for (auto it = keys_.lower_bound(request.key); it != end; ++it) {
    const KeyValue* kv = At(it->second, revision);
    if (kv == nullptr) continue;
    if (result.kvs.size() == limit) {
      result.more = true;
      break;
    }
    result.kvs.push_back(*kv);
  }
  return result;
}

absl::StatusOr<RangeResult> MvccMap::Range(const RangeRequest& request) const {
  if (request.revision > revision_) return FutureError(request.revision, revision_);
  if (request.revision != 0 && request.revision < compacted_) {
    return CompactedError(request.revision, compacted_);
  }
  return RangeAt(request, request.revision == 0 ? revision_ : request.revision);
}

void MvccMap::DoPut(const Put& put, int64_t revision) {
  Versions& versions = keys_[put.key];
  KeyValue kv;
  kv.key = put.key;
  kv.value = put.value;
  kv.mod_revision = revision;
  kv.lease = put.lease;
  if (const KeyValue* old = At(versions, revision)) {
    kv.create_revision = old->create_revision;
    kv.version = old->version + 1;
    if (old->lease != 0) lease_keys_[old->lease].erase(put.key);
  } else {
    kv.create_revision = revision;
    kv.version = 1;
  }
  if (put.lease != 0) lease_keys_[put.lease].insert(put.key);
  versions.push_back(std::move(kv));
  changes_[revision].push_back(put.key);
}

int64_t MvccMap::DoDelete(const Delete& gone, int64_t revision) {
  int64_t deleted = 0;
  auto it = keys_.lower_bound(gone.key);
  for (; it != keys_.end() && InRange(gone.key, gone.end, it->first); ++it) {
    const KeyValue* old = At(it->second, revision);
    if (old == nullptr) continue;
    if (old->lease != 0) lease_keys_[old->lease].erase(it->first);
    KeyValue tombstone;
    tombstone.key = it->first;
    tombstone.mod_revision = revision;
    it->second.push_back(std::move(tombstone));
    changes_[revision].push_back(it->first);
    ++deleted;
  }
  return deleted;
}

absl::StatusOr<TxnResult> MvccMap::Apply(const TxnRequest& request,
                                         absl::FunctionRef<bool(LeaseId)> lease_exists) {
  TxnResult result;
  result.succeeded = std::all_of(
      request.compares.begin(), request.compares.end(),
      [this](const Compare& compare) { return Holds(compare, Find(compare.key, revision_)); });
  const std::vector<Op>& ops = result.succeeded ? request.then : request.otherwise;
  // Everything that can fail is looked at before anything is done.
  for (const Op& op : ops) {
    if (const auto* put = std::get_if<Put>(&op)) {
      if (put->lease != 0 && !lease_exists(put->lease)) return NoLeaseError(put->lease);
    } else if (const auto* range = std::get_if<RangeRequest>(&op)) {
      if (range->revision > revision_) return FutureError(range->revision, revision_);
      if (range->revision != 0 && range->revision < compacted_) {
        return CompactedError(range->revision, compacted_);
      }
    }
  }
  const int64_t next = revision_ + 1;
  for (const Op& op : ops) {
    if (const auto* put = std::get_if<Put>(&op)) {
      DoPut(*put, next);
    } else if (const auto* gone = std::get_if<Delete>(&op)) {
      result.deleted += DoDelete(*gone, next);
    } else {
      const auto& range = std::get<RangeRequest>(op);
      result.ranges.push_back(RangeAt(range, range.revision == 0 ? next : range.revision));
    }
  }
  if (changes_.count(next) != 0) revision_ = next;
  for (RangeResult& range : result.ranges) range.revision = std::min(range.revision, revision_);
  result.revision = revision_;
  return result;
}

absl::StatusOr<WatchBatch> MvccMap::Events(const std::string& key, const std::string& end,
                                           int64_t from, size_t max_bytes) const {
  if (from < compacted_) return CompactedError(from, compacted_);
  WatchBatch batch;
  batch.revision = std::max(from - 1, revision_);
  size_t bytes = 0;
  for (auto it = changes_.lower_bound(from); it != changes_.end(); ++it) {
    for (const std::string& changed : it->second) {
      if (!InRange(key, end, changed)) continue;
      WatchEvent event;
      if (const KeyValue* kv = Find(changed, it->first)) {
        event.kv = *kv;
      } else {
        event.type = WatchEvent::Type::kDelete;
        event.kv.key = changed;
        event.kv.mod_revision = it->first;
      }
      bytes += sizeof(event) + event.kv.key.size() + event.kv.value.size();
      batch.events.push_back(std::move(event));
    }
    if (bytes > max_bytes) {
      batch.revision = it->first;
      break;
    }
  }
  return batch;
}

absl::Status MvccMap::Compact(int64_t revision) {
  if (revision > revision_) return FutureError(revision, revision_);
  if (revision <= compacted_) return absl::OkStatus();
  compacted_ = revision;
  changes_.erase(changes_.begin(), changes_.lower_bound(revision));
  for (auto it = keys_.begin(); it != keys_.end();) {
    Versions& versions = it->second;
    // The last state at or before `revision` is still seen by ranges there.
    auto keep = std::upper_bound(
        versions.begin(), versions.end(), revision,
        [](int64_t r, const KeyValue& version) { return r < version.mod_revision; });
    if (keep != versions.begin()) --keep;
    if (keep != versions.end() && keep->version == 0 && keep->mod_revision < revision) ++keep;
    versions.erase(versions.begin(), keep);
    it = versions.empty() ? keys_.erase(it) : std::next(it);
  }
  return absl::OkStatus();
}

std::vector<std::string> MvccMap::KeysOfLease(LeaseId lease) const {
  const auto it = lease_keys_.find(lease);
  if (it == lease_keys_.end()) return {};
  return {it->second.begin(), it->second.end()};
}

}  // namespace capstan::store
