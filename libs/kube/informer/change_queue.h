#ifndef CAPSTAN_LIBS_KUBE_INFORMER_CHANGE_QUEUE_H_
#define CAPSTAN_LIBS_KUBE_INFORMER_CHANGE_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"
#include "libs/kube/informer/cache.h"
#include "libs/kube/informer/object_key.h"

namespace capstan::kube {

// What one handler of a cache still has to be told. Pure; for one thread, or under a lock of its
// owner's; a queue of its own for each handler, so that none waits for another.
//
//   - Changes of one object that wait merge into one, from the state that the handler was told last
//     to the newest: it never sees an object go back, nor a state twice unasked. States between may be left
//     out, and so may an object that came and went meanwhile; that an object it was told of is gone
//     may not, nor that another one, of another uid, has its name: that is a deletion and an
//     addition.
//   - Objects come in the order in which their waiting changes began.
//   - Bounded: at most one entry for each object that is in the cache or that the handler was told
//     of, never the number of changes. What does not wait costs nothing.
template <typename T>
class ChangeQueue {
 public:
  using Ref = std::shared_ptr<const T>;

  // Takes the changes of the cache in their order, beginning with its first or, for a handler that
  // comes later, with one {null, object} for each object that is there.
  void Push(const CacheChange<T>& change) {
    const ObjectKey key = KeyOf(change.after != nullptr ? *change.after : *change.before);
    const auto [found, is_new] = entries_.try_emplace(key);
    Entry& entry = found->second;
    if (is_new) {
      entry.told = change.before;
      entry.order = next_order_++;
      order_[entry.order] = key;
    }
    // The last state of the object that the handler knows, not of one that followed it.
    if (entry.told != nullptr && !entry.told_is_gone) {
      const T& last = change.after != nullptr ? *change.after : *change.last_known;
      if (ObjectTraits<T>::Uid(*entry.told) == ObjectTraits<T>::Uid(last)) {
        entry.last_known = change.after != nullptr ? change.after : change.last_known;
        entry.told_is_gone = change.after == nullptr;
      } else {
        entry.told_is_gone = true;
      }
    }
    entry.newest = change.after;
    const bool nothing = entry.told == nullptr ? entry.newest == nullptr
                                               : entry.newest != nullptr && !entry.told_is_gone &&
                                                     Cache<T>::IsSame(*entry.told, *entry.newest);
    if (nothing && !entry.again) Drop(found);
  }

  // Has an object of the cache told once more, as a change from itself to itself; unless something
  // of it waits anyway.
  void PushAgain(Ref object) {
    ObjectKey key = KeyOf(*object);
    const auto [found, is_new] = entries_.try_emplace(key);
    if (!is_new) return;
    Entry& entry = found->second;
    entry.told = entry.newest = std::move(object);
    entry.again = true;
    entry.order = next_order_++;
    order_[entry.order] = std::move(key);
  }

  // The next change, which counts as told. Absent if nothing waits.
  absl::optional<CacheChange<T>> Pop() {
    if (order_.empty()) return absl::nullopt;
    const auto found = entries_.find(order_.begin()->second);
    Entry& entry = found->second;
    CacheChange<T> change;
    if (entry.told != nullptr && entry.told_is_gone) {
      change = {entry.told, nullptr, entry.last_known != nullptr ? entry.last_known : entry.told};
      entry.told = nullptr;
      entry.told_is_gone = false;
      entry.last_known = nullptr;
      entry.again = false;
      if (entry.newest == nullptr) Drop(found);
      return change;
    }
    change = {entry.told, entry.newest, nullptr};
    Drop(found);
    return change;
  }

  // Entries, one for each object.
  size_t size() const { return entries_.size(); }

  // Call after the changes of the first list were pushed; `synced` is true once they were told.
  void MarkSynced() { synced_at_ = next_order_; }
  bool synced() const {
    return synced_at_.has_value() && (order_.empty() || order_.begin()->first >= *synced_at_);
  }

 private:
  struct Entry {
    uint64_t order = 0;
    Ref told;
    // The object that was told is gone; `newest`, if any, is another one.
    bool told_is_gone = false;
    Ref last_known;
    Ref newest;
    bool again = false;
  };
  using Entries = absl::flat_hash_map<ObjectKey, Entry>;

  void Drop(typename Entries::iterator entry) {
    order_.erase(entry->second.order);
    entries_.erase(entry);
  }

  Entries entries_;
  std::map<uint64_t, ObjectKey> order_;
  uint64_t next_order_ = 0;
  absl::optional<uint64_t> synced_at_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_INFORMER_CHANGE_QUEUE_H_
