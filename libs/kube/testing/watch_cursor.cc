#include "libs/kube/testing/watch_cursor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/kube/objects/resource_type.h"
#include "libs/kube/testing/api_body.h"

namespace capstan::kube::testing {

std::string WatchCursor::Frame(absl::string_view type, const Json& object) const {
  Json shown = object;
  shown["apiVersion"] = ApiVersion(plan_.type->resource);
  return WriteEvent(type, shown, plan_.encoding, converter_);
}

bool WatchCursor::Selects(const ObjectRef& object) const {
  return object != nullptr && plan_.labels.Matches(*object) && plan_.fields.Matches(*object);
}

std::vector<std::string> WatchCursor::Poll() {
  std::vector<std::string> frames;
  if (ended_) return frames;
  const RevisionStore& store = state_->store();
  if (!begun_) {
    begun_ = true;
    if (plan_.after_revision.has_value()) {
      seen_ = *plan_.after_revision;
      if (seen_ < store.compacted()) {
        frames.push_back(Error(Expired(
            absl::StrCat("too old resource version: ", seen_, " (", store.compacted(), ")"))));
        return frames;
      }
    } else {
      seen_ = store.revision();
      for (const auto& [key, object] : store.List(plan_.type->StoreName(), plan_.ns)) {
        if (Selects(object)) frames.push_back(Frame("ADDED", *object));
      }
      if (plan_.initial_events_end) {
        Json end = {{"kind", plan_.type->resource.kind},
                    {"metadata",
                     {{"resourceVersion", absl::StrCat(seen_)},
                      {"annotations", {{"k8s.io/initial-events-end", "true"}}}}}};
        frames.push_back(Frame("BOOKMARK", end));
      }
    }
  }
  if (seen_ < store.compacted()) {
    ended_ = true;
    return frames;
  }
  if (seen_ >= store.revision()) return frames;
  const std::string resource = plan_.type->StoreName();
  for (const StoreChange& change : store.ChangesAfter(seen_)) {
    if (change.key.resource != resource || (!plan_.ns.empty() && change.key.ns != plan_.ns)) {
      continue;
    }
    const bool before = Selects(change.before);
    const bool after = Selects(change.after);
    if (before && !after) {
      frames.push_back(Frame("DELETED", *AtRevision(change.before, change.revision)));
    } else if (after) {
      frames.push_back(Frame(before ? "MODIFIED" : "ADDED", *change.after));
    }
  }
  seen_ = store.revision();
  return frames;
}

std::string WatchCursor::Bookmark() {
  if (!plan_.bookmarks || ended_ || !begun_) return "";
  return Frame("BOOKMARK", {{"kind", plan_.type->resource.kind},
                            {"metadata", {{"resourceVersion", absl::StrCat(seen_)}}}});
}

std::string WatchCursor::Error(const ApiError& error) {
  ended_ = true;
  return WriteEvent("ERROR", ToStatus(error), plan_.encoding, converter_);
}

}  // namespace capstan::kube::testing
