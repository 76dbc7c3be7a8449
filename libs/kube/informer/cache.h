#ifndef CAPSTAN_LIBS_KUBE_INFORMER_CACHE_H_
#define CAPSTAN_LIBS_KUBE_INFORMER_CACHE_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "libs/kube/objects/object_traits.h"

namespace capstan::kube {

// What happened to one object of a cache. At least one of both is there.
template <typename T>
struct CacheChange {
  // Null: it was not there.
  std::shared_ptr<const T> before;
  // Null: it is gone.
  std::shared_ptr<const T> after;
  // If it is gone: as it was last known, which is the server's last word only if a DELETED event
  // said so, and not if a list lacked it.
  std::shared_ptr<const T> last_known;
};

// The objects of one resource as the API server showed them, by namespace and name, with indexes.
// Pure; for one thread, or under a lock of its owner's.
//
// Resource versions are compared for equality alone. The key of an object is not stored: it is read
// from the object. Beside itself an object so costs a place in a hash table, a shared_ptr, and
// another for each of its index values.
template <typename T>
class Cache {
 public:
  using Ref = std::shared_ptr<const T>;
  using Traits = ObjectTraits<T>;
  // The values of an object, of any number. A pure function of the object.
  using IndexFunction = std::function<std::vector<std::string>(const T&)>;

  struct Options {
    std::map<std::string, IndexFunction> indexes;
  };

  explicit Cache(Options options = {}) : options_(std::move(options)) {
    for (const auto& [name, function] : options_.indexes) indexes_[name];
  }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // The object is there (ADDED, MODIFIED). No change if it is with this uid and resource version.
  std::vector<CacheChange<T>> Put(Ref object) {
    const Ref before = Get(Traits::Namespace(*object), Traits::Name(*object));
    if (before != nullptr && IsSame(*before, *object)) return {};
    if (before != nullptr) Take(before);
    Insert(object);
    return {{before, object, nullptr}};
  }

  // The object is gone; `last` is its last state (DELETED).
  std::vector<CacheChange<T>> Remove(Ref last) {
    const Ref before = Get(Traits::Namespace(*last), Traits::Name(*last));
    if (before == nullptr) return {};
    Take(before);
    return {{before, nullptr, last}};
  }

  // `objects` are all that there are. Changes are in the order of the keys; an object that is
  // unchanged stays the same one.
  std::vector<CacheChange<T>> Replace(std::vector<Ref> objects) {
    std::vector<CacheChange<T>> changes;
    absl::flat_hash_set<Ref, KeyHash, KeyEqual> listed(objects.begin(), objects.end());
    for (const Ref& before : List()) {
      if (listed.contains(before)) continue;
      Take(before);
      changes.push_back({before, nullptr, before});
    }
    for (Ref& object : objects) {
      for (CacheChange<T>& change : Put(std::move(object))) changes.push_back(std::move(change));
    }
    std::sort(changes.begin(), changes.end(), [](const CacheChange<T>& a, const CacheChange<T>& b) {
      return Key(a.after != nullptr ? *a.after : *a.before) <
             Key(b.after != nullptr ? *b.after : *b.before);
    });
    return changes;
  }

  // Null if it is not there.
  Ref Get(absl::string_view ns, absl::string_view name) const {
    const auto found = objects_.find(KeyView{ns, name});
    return found == objects_.end() ? nullptr : *found;
  }
  // By key.
  std::vector<Ref> List() const { return Sorted({objects_.begin(), objects_.end()}); }
  // Those of which the index gives `value`, by key. None if there is no such index.
  std::vector<Ref> ByIndex(absl::string_view index, absl::string_view value) const {
    const auto found = indexes_.find(std::string(index));
    if (found == indexes_.end()) return {};
    const auto objects = found->second.find(value);
    if (objects == found->second.end()) return {};
    return Sorted({objects->second.begin(), objects->second.end()});
  }
  size_t size() const { return objects_.size(); }

  // Same object in the same state.
  static bool IsSame(const T& a, const T& b) {
    return Traits::ResourceVersion(a) == Traits::ResourceVersion(b) &&
           Traits::Uid(a) == Traits::Uid(b);
  }

 private:
  using KeyView = std::tuple<absl::string_view, absl::string_view>;
  static KeyView Key(const T& object) { return {Traits::Namespace(object), Traits::Name(object)}; }
  static KeyView AsKey(KeyView key) { return key; }
  static KeyView AsKey(const Ref& object) { return Key(*object); }
  struct KeyHash {
    using is_transparent = void;
    template <typename Any>
    size_t operator()(const Any& any) const {
      return absl::Hash<KeyView>()(AsKey(any));
    }
  };
  struct KeyEqual {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return AsKey(a) == AsKey(b);
    }
  };
  using Refs = absl::flat_hash_set<Ref, KeyHash, KeyEqual>;

  static std::vector<Ref> Sorted(std::vector<Ref> objects) {
    std::sort(objects.begin(), objects.end(),
              [](const Ref& a, const Ref& b) { return Key(*a) < Key(*b); });
    return objects;
  }

  void Insert(const Ref& object) {
    objects_.insert(object);
    for (auto& [name, values] : indexes_) {
      for (const std::string& value : options_.indexes.at(name)(*object)) {
        values[value].insert(object);
      }
    }
  }

  void Take(const Ref& object) {
    for (auto& [name, values] : indexes_) {
      for (const std::string& value : options_.indexes.at(name)(*object)) {
        const auto found = values.find(value);
        if (found == values.end()) continue;
        found->second.erase(object);
        if (found->second.empty()) values.erase(found);
      }
    }
    objects_.erase(object);
  }

  const Options options_;
  Refs objects_;
  std::map<std::string, absl::flat_hash_map<std::string, Refs>> indexes_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_INFORMER_CACHE_H_
