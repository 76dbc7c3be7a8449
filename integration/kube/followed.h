// An informer whose handler and cache are held against the server.
#ifndef CAPSTAN_INTEGRATION_KUBE_FOLLOWED_H_
#define CAPSTAN_INTEGRATION_KUBE_FOLLOWED_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "integration/kube/numbered_object.h"
#include "libs/kube/client/blocking_resource.h"
#include "libs/kube/informer/cache.h"
#include "libs/kube/informer/delivery.h"
#include "libs/kube/informer/informer.h"
#include "libs/kube/informer/object_key.h"
#include "libs/kube/informer/object_scope.h"
#include "libs/kube/objects/object_traits.h"
#include "libs/strand/strand.h"

namespace capstan::kube::testing {

// Adds a failure of GoogleTest's when its handler sees an object go back in time, or a state twice.
// Thread-safe; the informer and the strand must outlive it.
template <typename T>
class Followed {
 public:
  using Objects = std::map<ObjectKey, std::shared_ptr<const T>>;

  Followed(Informer<T>* informer, Strand* strand) : informer_(informer) {
    Handler<T> handler;
    handler.on_change = [this](const CacheChange<T>& change, bool) { OnChange(change); };
    subscription_ = informer_->AddHandler(strand, std::move(handler));
  }

  Informer<T>* informer() const { return informer_; }

  // Empty if cache and handler have just what the server has, object by object and field by field.
  std::string Difference(const Objects& truth) {
    Objects cached;
    for (auto& object : informer_->List()) cached[KeyOf(*object)] = object;
    Objects told;
    {
      const absl::MutexLock lock(&mutex_);
      for (const auto& [key, last] : told_) {
        if (last.object != nullptr) told[key] = last.object;
      }
    }
    const std::string in_cache = Difference(cached, truth);
    if (!in_cache.empty()) return absl::StrCat("in the cache ", in_cache);
    // The handler gets the very objects that are in the cache.
    const std::string as_told = told == cached ? "" : Difference(told, truth);
    return as_told.empty() ? "" : absl::StrCat("as told ", as_told);
  }

 private:
  struct Told {
    uint64_t version = 0;
    std::shared_ptr<const T> object;
  };

  static std::string Difference(const Objects& some, const Objects& truth) {
    for (const auto& [key, object] : truth) {
      const auto found = some.find(key);
      if (found == some.end()) return absl::StrCat(key.ToString(), " is missing");
      if (!Cache<T>::IsSame(*found->second, *object)) {
        return absl::StrCat(key.ToString(), " is of another version");
      }
    }
    for (const auto& [key, object] : some) {
      if (!truth.contains(key)) return absl::StrCat(key.ToString(), " is too much");
    }
    // Last, since it takes longest.
    for (const auto& [key, object] : truth) {
      if (!SameObject(*some.at(key), *object)) return absl::StrCat(key.ToString(), " is another");
    }
    return "";
  }

  // Of etcd they are numbers that grow with each write. The client may not rely on it; a test of
  // this server may.
  static uint64_t VersionOf(const T& object) {
    uint64_t version = 0;
    EXPECT_TRUE(absl::SimpleAtoi(ObjectTraits<T>::ResourceVersion(object), &version));
    return version;
  }

  void OnChange(const CacheChange<T>& change) {
    const T& object = change.after != nullptr ? *change.after : *change.last_known;
    const ObjectKey key = KeyOf(object);
    const uint64_t version = VersionOf(object);
    const absl::MutexLock lock(&mutex_);
    Told& told = told_[key];
    if (change.after != nullptr) {
      EXPECT_GT(version, told.version) << ToString(informer_->scope()) << " " << key.ToString();
      EXPECT_EQ(change.before == nullptr, told.object == nullptr)
          << ToString(informer_->scope()) << " " << key.ToString();
    } else {
      // What was last known of it, or the state that it was deleted in.
      EXPECT_GE(version, told.version) << ToString(informer_->scope()) << " " << key.ToString();
      EXPECT_NE(told.object, nullptr)
          << ToString(informer_->scope()) << " " << key.ToString() << " gone twice";
    }
    told.version = version;
    told.object = change.after;
  }

  Informer<T>* const informer_;
  absl::Mutex mutex_;
  std::map<ObjectKey, Told> told_ ABSL_GUARDED_BY(mutex_);
  // Last, so that its handler is gone first.
  std::unique_ptr<Subscription<T>> subscription_;
};

// All objects of a type that the server has; none and an error if it does not say.
template <typename T>
typename Followed<T>::Objects Truth(const BlockingResource<T>& resource, absl::Status* status) {
  typename Followed<T>::Objects truth;
  const auto all = resource.ListAll("", {});
  status->Update(all.status());
  if (all.ok()) {
    for (const auto& object : all->items) truth[KeyOf(*object)] = object;
  }
  return truth;
}

// Whether the scope's selectors, of the form `label=value` or `metadata.namespace=value`, take it.
template <typename T>
bool InScope(const T& object, const ObjectScope& scope) {
  if (!scope.ns.empty() && ObjectTraits<T>::Namespace(object) != scope.ns) return false;
  const std::pair<std::string, std::string> label = absl::StrSplit(scope.label_selector, '=');
  if (!label.first.empty() && LabelOf(object, label.first) != label.second) return false;
  const std::pair<std::string, std::string> field = absl::StrSplit(scope.field_selector, '=');
  return field.first.empty() || ObjectTraits<T>::Namespace(object) == field.second;
}

}  // namespace capstan::kube::testing

#endif  // CAPSTAN_INTEGRATION_KUBE_FOLLOWED_H_
