#ifndef CAPSTAN_LIBS_KUBE_INFORMER_OWN_WRITES_H_
#define CAPSTAN_LIBS_KUBE_INFORMER_OWN_WRITES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/kube/informer/cache.h"
#include "libs/kube/informer/object_key.h"
#include "libs/kube/objects/object_traits.h"
#include "libs/time/clock.h"

namespace capstan::kube {

struct OwnWritesOptions {
  // Objects that are shadowed at once; beyond it the oldest write is given up.
  size_t max_writes = 1024;
  // A write is given up after this: the watch has shown neither it nor anything later.
  absl::Duration max_age = absl::Seconds(30);
  // States that the cache has left behind and that are remembered, 8 bytes each twice over.
  size_t past_states = 4096;
  // The server selects by label or field: a DELETED event may be of an object that comes back.
  bool selected = false;
  // A filter of our own refuses objects: they may come back.
  bool filtered = false;
};

// What was written to the server and is not known to be in the cache: it shadows the cache, so that
// who reads after a write sees at least what was written. Pure; for one thread, or under a lock of
// its owner's, which is the same one as the cache's.
//
// Why it holds. Resource versions can be compared for equality alone, so "at least W" has to follow
// from the order in which the cache sees things. A watch shows every state of an object of its
// scope, in order; only a list leaves states out. Let W be written, of uid u and version w.
//   1. When it is expected, W is at hand already if the cache has it; if the cache had it and has
//      gone on (a past state); or if the cache saw u end (2b). Then nothing shadows. This also
//      covers a write that changed nothing and is answered with the version of an older state.
//   2. Else the cache is older than W, unless a list jumped over it; W shadows until
//      a. the cache has W: by 1 all it shows from then on is at least W;
//      b. u has ended: the server says so, or another uid has its name, or (without selectors and
//         filters, by which objects come and go) the cache has it no more. Uids do not come back,
//         so this is after W. What goes in version w has ended the shadow in any case;
//      c. a list is committed that was begun after W was expected: the server answers it with a
//         state no older than that moment;
//      d. a later own write of the same name takes its place;
//      e. it is given up, by age or number.
//   3. A later state that follows W by watch comes after W itself (a). One that a list brought
//   which
//      was under way during the write cannot be told from an earlier one: W goes on shadowing,
//      which is still at least W, and only such a list makes reads older than what the cache knows,
//      for at most max_age. To end at any other version would be wrong: another's write may lie
//      between.
// A deletion of u is a state too, the one in which u has ended: the name shadows as absent until b,
// c, d or e. Where the server selects, b may not come, so only u and the uid that the cache had are
// hidden.
//
// Assumes that own writes of one object are expected in the order of the writes, as one worker a
// key has them; and, for 1, that no more than past_states changes pass between the server's write
// and the call. What leaves a label or field selector by the write is shown until the watch says
// so; an object that was never in the scope is shown until max_age. Handlers hear of none of this:
// they are told what the watch shows.
template <typename T>
class OwnWrites {
 public:
  using Ref = std::shared_ptr<const T>;
  using Traits = ObjectTraits<T>;

  explicit OwnWrites(OwnWritesOptions options = {}) : options_(options) {}

  // The server has answered a write with `object`. `cached` is what the cache has by its name, or
  // null. If not `visible` (the filter refuses it), the name shadows as absent.
  void Expect(const Ref& object, bool visible, const Ref& cached, BootTime now) {
    const std::string uid(Traits::Uid(*object));
    const bool known = (cached != nullptr && Cache<T>::IsSame(*cached, *object)) ||
                       past_.contains(StateHash(*object)) || past_.contains(EndHash(uid));
    Insert(KeyOf(*object), known,
           {uid, std::string(Traits::ResourceVersion(*object)), visible ? object : nullptr, "", now,
            generation_, 0});
  }

  // The server has deleted the object of that uid at once (an answer without an object; one that
  // still has finalisers is answered as a state, for Expect). Not for an answer of 404.
  void ExpectGone(const ObjectKey& key, absl::string_view uid, const Ref& cached, BootTime now) {
    Insert(key, past_.contains(EndHash(uid)),
           {std::string(uid), "", nullptr,
            cached == nullptr ? std::string() : std::string(Traits::Uid(*cached)), now, generation_,
            0});
  }

  // Every change of the cache, in order.
  void OnChange(const CacheChange<T>& change) {
    if (change.before != nullptr) {
      Remember(StateHash(*change.before));
      if (change.after == nullptr) {
        OnGone(*change.last_known, !options_.selected && !options_.filtered);
      } else if (Traits::Uid(*change.after) != Traits::Uid(*change.before)) {
        OnUidEnded(KeyOf(*change.before), Traits::Uid(*change.before));
      }
    }
    if (change.after == nullptr || writes_.empty()) return;
    const auto found = writes_.find(KeyOf(*change.after));
    if (found != writes_.end() && IsStateOf(found->second, *change.after)) Drop(found);
  }

  // The watch showed an object as gone, in the state `last`; after OnChange, and also if the cache
  // did not have it. `deleted`: the server said so, not our own filter.
  void OnRemoved(const T& last, bool deleted) { OnGone(last, deleted && !options_.selected); }

  void OnListBegun() { list_generation_ = ++generation_; }
  // After its changes. Lists do not overlap: it is the one that was begun last.
  void OnListCommitted() {
    std::vector<ObjectKey> over;
    for (const auto& [key, write] : writes_) {
      if (write.generation < list_generation_) over.push_back(key);
    }
    for (const ObjectKey& key : over) Drop(writes_.find(key));
  }

  // What a read of `key` gives where the cache has `cached`.
  Ref Read(const ObjectKey& key, Ref cached, BootTime now) const {
    const auto found = writes_.find(key);
    return found == writes_.end() ? std::move(cached) : Shadow(found->second, cached, now);
  }

  // The same for many, which `cached` gives by key: calls `put(key, object or null)` for each name
  // whose read may differ from the cache, by key.
  template <typename CachedFunction, typename PutFunction>
  void ReadAll(const CachedFunction& cached, const PutFunction& put, BootTime now) const {
    for (const auto& [key, write] : writes_) put(key, Shadow(write, cached(key), now));
  }

  // Gives up what is too old. Reads do not count it anyway; this frees it.
  void Expire(BootTime now) {
    while (!by_order_.empty()) {
      const auto oldest = writes_.find(by_order_.begin()->second);
      if (now - oldest->second.since <= options_.max_age) return;
      Drop(oldest);
    }
  }

  size_t size() const { return writes_.size(); }

 private:
  struct Write {
    std::string uid;
    // Empty: a deletion.
    std::string resource_version;
    // Null: the name shadows as absent.
    Ref object;
    // Of a deletion: the uid that the cache had.
    std::string cached_uid;
    BootTime since;
    // Lists begun before the write have at most this one.
    uint64_t generation = 0;
    uint64_t order = 0;
  };
  using Writes = std::map<ObjectKey, Write>;

  static bool IsStateOf(const Write& write, const T& object) {
    return Traits::Uid(object) == write.uid &&
           Traits::ResourceVersion(object) == write.resource_version;
  }

  Ref Shadow(const Write& write, const Ref& cached, BootTime now) const {
    if (now - write.since > options_.max_age) return cached;
    if (write.object != nullptr || cached == nullptr) return write.object;
    const bool shows = options_.selected && write.resource_version.empty() &&
                       Traits::Uid(*cached) != write.uid &&
                       Traits::Uid(*cached) != write.cached_uid;
    return shows ? cached : nullptr;
  }

  // An own write of the name before this one is older than it, hence than what is `known`.
  void Insert(const ObjectKey& key, bool known, Write write) {
    Expire(write.since);
    Drop(writes_.find(key));
    if (known) return;
    if (writes_.size() >= options_.max_writes) Drop(writes_.find(by_order_.begin()->second));
    write.order = next_order_++;
    by_order_[write.order] = key;
    writes_[key] = std::move(write);
  }
  void Drop(typename Writes::iterator write) {
    if (write == writes_.end()) return;
    by_order_.erase(write->second.order);
    writes_.erase(write);
  }

  void OnGone(const T& last, bool ended) {
    Remember(StateHash(last));
    if (ended) OnUidEnded(KeyOf(last), Traits::Uid(last));
    if (writes_.empty()) return;
    const auto found = writes_.find(KeyOf(last));
    if (found != writes_.end() && IsStateOf(found->second, last)) Drop(found);
  }
  void OnUidEnded(const ObjectKey& key, absl::string_view uid) {
    Remember(EndHash(uid));
    const auto found = writes_.find(key);
    if (found != writes_.end() && found->second.uid == uid) Drop(found);
  }

  // Two states with one hash would end a shadow early: once in 2^64.
  static uint64_t StateHash(const T& object) {
    return absl::HashOf(0, Traits::Uid(object), Traits::ResourceVersion(object));
  }
  static uint64_t EndHash(absl::string_view uid) { return absl::HashOf(1, uid); }
  void Remember(uint64_t hash) {
    if (!past_.insert(hash).second) return;
    past_order_.push_back(hash);
    if (past_order_.size() <= options_.past_states) return;
    past_.erase(past_order_.front());
    past_order_.pop_front();
  }

  const OwnWritesOptions options_;
  // Ordered, so that reads are.
  Writes writes_;
  std::map<uint64_t, ObjectKey> by_order_;
  uint64_t next_order_ = 0;
  uint64_t generation_ = 0;
  uint64_t list_generation_ = 0;
  absl::flat_hash_set<uint64_t> past_;
  std::deque<uint64_t> past_order_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_INFORMER_OWN_WRITES_H_
