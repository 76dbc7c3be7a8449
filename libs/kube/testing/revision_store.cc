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
  return ListAt(resource, ns, revision_);
}

RevisionStore::Objects RevisionStore::ListAt(absl::string_view resource, absl::string_view ns,
                                             int64_t revision) const {
  Objects out;
  VisitAt(resource, ns, revision, nullptr, [&out](const StoreKey& key, const ObjectRef& object) {
    out.emplace_hint(out.end(), key, object);
    return true;
  });
  return out;
}

void RevisionStore::VisitAt(absl::string_view resource, absl::string_view ns, int64_t revision,
                            const StoreKey* after, Visit visit) const {
  // What has changed since, as it was then.
  Objects then;
  for (auto change = history_.rbegin(); change != history_.rend() && change->revision > revision;
       ++change) {
    then[change->key] = change->before;
  }
  const StoreKey first{std::string(resource), std::string(ns), ""};
  const auto begin = [&](const Objects& objects) {
    return after == nullptr || *after < first ? objects.lower_bound(first)
                                              : objects.upper_bound(*after);
  };
  const auto is_end = [&](const Objects& objects, Objects::const_iterator at) {
    return at == objects.end() || at->first.resource != resource ||
           (!ns.empty() && at->first.ns != ns);
  };
  auto now = begin(objects_);
  auto old = begin(then);
  while (true) {
    const bool no_old = is_end(then, old);
    if (is_end(objects_, now) && no_old) return;
    if (no_old || (!is_end(objects_, now) && now->first < old->first)) {
      if (!visit(now->first, now->second)) return;
      ++now;
      continue;
    }
    if (!is_end(objects_, now) && now->first == old->first) ++now;
    if (old->second != nullptr && !visit(old->first, old->second)) return;
    ++old;
  }
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
