#ifndef CAPSTAN_LIBS_KUBE_INFORMER_TOLD_ORDER_H_
#define CAPSTAN_LIBS_KUBE_INFORMER_TOLD_ORDER_H_

#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "libs/kube/informer/cache.h"
#include "libs/kube/informer/object_key.h"
#include "libs/kube/informer/toy_api_server.h"

namespace capstan::kube {

// What a handler of Toys was told, held to what handlers are promised. For tests; thread-safe.
class ToldOrder {
 public:
  using Ref = ToyApiServer::Ref;

  explicit ToldOrder(const ToyApiServer* server) : server_(server) {}

  void OnChange(const CacheChange<Toy>& change) {
    const Toy& object = change.after != nullptr ? *change.after : *change.before;
    const ObjectKey key = KeyOf(object);
    absl::MutexLock lock(&mutex_);
    ++changes_;
    const auto found = told_.find(key);
    const Ref before = found == told_.end() ? nullptr : found->second;
    if (!IsSame(before, change.before)) Fail(key, "its before is not what was told last");
    if (change.after == nullptr) {
      if (before == nullptr) Fail(key, "gone without having been there");
      told_.erase(key);
      return;
    }
    const size_t position = server_->Position(*change.after);
    if (position == 0) Fail(key, "a state that the server never had");
    if (position <= newest_[key]) Fail(key, "back, or the same state twice");
    if (before != nullptr && before->uid != change.after->uid) {
      Fail(key, "another object without a deletion");
    }
    newest_[key] = position;
    told_[key] = change.after;
  }

  std::map<ObjectKey, std::string> versions() const {
    absl::MutexLock lock(&mutex_);
    std::map<ObjectKey, std::string> versions;
    for (const auto& [key, object] : told_) versions[key] = object->resource_version;
    return versions;
  }
  int changes() const {
    absl::MutexLock lock(&mutex_);
    return changes_;
  }
  // What broke first; "" if nothing.
  std::string failure() const {
    absl::MutexLock lock(&mutex_);
    return failure_;
  }

 private:
  // The same state of it, though perhaps decoded anew.
  static bool IsSame(const Ref& a, const Ref& b) {
    return a == b || (a != nullptr && b != nullptr && Cache<Toy>::IsSame(*a, *b));
  }
  void Fail(const ObjectKey& key, const char* what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (failure_.empty()) failure_ = absl::StrCat(key.ToString(), ": ", what);
  }

  const ToyApiServer* const server_;
  mutable absl::Mutex mutex_;
  std::map<ObjectKey, Ref> told_ ABSL_GUARDED_BY(mutex_);
  std::map<ObjectKey, size_t> newest_ ABSL_GUARDED_BY(mutex_);
  int changes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_INFORMER_TOLD_ORDER_H_
