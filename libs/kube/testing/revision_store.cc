#include "libs/kube/testing/revision_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace capstan::kube::testing {

ObjectRef RevisionStore::Get(const StoreKey& key) const {
  const auto found = objects_.find(key);
  return found == objects_.end() ? nullptr : found->second;
}

void RevisionStore::Record(const StoreKey& key, ObjectRef before, ObjectRef after) {
  history_.push_back({revision_, key, std::move(before), std::move(after)});
  while (history_.size() > max_history_) {
    compacted_ = history_.front().revision;
    history_.pop_front();
  }
}

ObjectRef RevisionStore::Put(const StoreKey& key, Json object) {
  ++revision_;
  object["metadata"]["resourceVersion"] = absl::StrCat(revision_);
  const ObjectRef stored = std::make_shared<const Json>(std::move(object));
  ObjectRef& place = objects_[key];
  ObjectRef before = std::exchange(place, stored);
  Record(key, std::move(before), stored);
  return stored;
}

ObjectRef RevisionStore::Remove(const StoreKey& key) {
  const auto found = objects_.find(key);
  if (found == objects_.end()) return nullptr;
  ++revision_;
  const ObjectRef before = found->second;
  Record(key, before, nullptr);
  objects_.erase(found);
  return AtRevision(before, revision_);
}

ObjectRef AtRevision(const ObjectRef& object, int64_t revision) {
  Json copy = *object;
  copy["metadata"]["resourceVersion"] = absl::StrCat(revision);
  return std::make_shared<const Json>(std::move(copy));
}

void RevisionStore::Touch() {
  ++revision_;
  Record({}, nullptr, nullptr);
}

RevisionStore::Objects RevisionStore::List(absl::string_view resource, absl::string_view ns) const {
  Objects out;
  for (auto it = objects_.lower_bound({std::string(resource), std::string(ns), ""});
       it != objects_.end() && it->first.resource == resource; ++it) {
    if (!ns.empty() && it->first.ns != ns) break;
    out.insert(*it);
  }
  return out;
}

RevisionStore::Objects RevisionStore::ListAt(absl::string_view resource, absl::string_view ns,
                                             int64_t revision) const {
  Objects out = List(resource, ns);
  for (auto change = history_.rbegin(); change != history_.rend() && change->revision > revision;
       ++change) {
    if (change->key.resource != resource || (!ns.empty() && change->key.ns != ns)) continue;
    if (change->before == nullptr) {
      out.erase(change->key);
    } else {
      out[change->key] = change->before;
    }
  }
  return out;
}

std::vector<StoreChange> RevisionStore::ChangesAfter(int64_t revision) const {
  const auto first =
      std::upper_bound(history_.begin(), history_.end(), revision,
                       [](int64_t r, const StoreChange& change) { return r < change.revision; });
  return {first, history_.end()};
}

void RevisionStore::Compact(int64_t revision) {
  revision = std::min(revision, revision_);
  if (revision <= compacted_) return;
  compacted_ = revision;
  while (!history_.empty() && history_.front().revision <= revision) history_.pop_front();
}

}  // namespace capstan::kube::testing
