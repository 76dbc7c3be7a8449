#ifndef CAPSTAN_LIBS_KUBE_WORK_QUEUE_WORK_QUEUE_CORE_H_
#define CAPSTAN_LIBS_KUBE_WORK_QUEUE_WORK_QUEUE_CORE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/time/clock.h"

namespace capstan::kube {

struct WorkQueueOptions {
  // AddRateLimited waits initial, twice that, … for each failure of a key since Forget.
  absl::Duration initial_backoff = absl::Milliseconds(5);
  absl::Duration max_backoff = absl::Seconds(1000);
  // All keys together: one AddRateLimited per interval, after a burst.
  absl::Duration bucket_interval = absl::Milliseconds(100);
  int bucket_burst = 100;
  // From the end of the work on a key to its next beginning.
  absl::Duration min_interval = absl::ZeroDuration();
};

// Keys that wait to be worked on. Pure: time is told by the caller and never goes back.
//
//   - A key waits at most once, and is given to one worker at a time: a key that is added while it
//     is worked on waits again once the worker is done.
//   - Ready keys leave by priority, the highest first, and within one in the order in which they
//     became ready.
//   - Memory is that of the keys that wait, are worked on, have failures, or whose min_interval has
//     not passed.
template <typename Key>
class WorkQueueCore {
 public:
  struct Work {
    Key key;
    // Since it became ready.
    absl::Duration waited;
  };

  explicit WorkQueueCore(WorkQueueOptions options = {}) : options_(options) {}

  // A key that waits already keeps its place, but for a higher priority. Nothing after ShutDown.
  void Add(const Key& key, BootTime now, int priority = 0) {
    AddAfter(key, absl::ZeroDuration(), now, priority);
  }

  // If the key has more than one time to become ready at, the earliest counts.
  void AddAfter(const Key& key, absl::Duration delay, BootTime now, int priority = 0) {
    if (shutting_down_) return;
    Settle(now);
    Entry& entry = entries_[key];
    BootTime when = now + std::max(delay, absl::ZeroDuration());
    if (entry.state == State::kReady) {
      if (priority > entry.priority && when <= now) {
        ready_.erase({-entry.priority, entry.order, key});
        entry.priority = priority;
        ready_.insert({-priority, entry.order, key});
      }
      return;
    }
    entry.priority = entry.wanted ? std::max(entry.priority, priority) : priority;
    entry.when = entry.wanted ? std::min(entry.when, when) : when;
    entry.wanted = true;
    if (entry.state == State::kWorking) return;
    Delay(key, entry);
    Settle(now);
  }

  // After a failure: after the key's back-off, or when the bucket allows, whichever is later.
  void AddRateLimited(const Key& key, BootTime now, int priority = 0) {
    if (shutting_down_) return;
    Entry& entry = entries_[key];
    absl::Duration backoff = options_.initial_backoff;
    for (uint32_t i = 0; i < entry.failures && backoff < options_.max_backoff; ++i) backoff *= 2;
    ++entry.failures;
    ++retries_;
    backoff = std::max(std::min(backoff, options_.max_backoff), TakeToken(now));
    AddAfter(key, backoff, now, priority);
  }

  // The key's next failure is its first.
  void Forget(const Key& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return;
    found->second.failures = 0;
    DropIfIdle(found);
  }
  uint32_t failures(const Key& key) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? 0 : found->second.failures;
  }

  // The next key to work on, which is the caller's until Done. Absent if none is ready.
  absl::optional<Work> Get(BootTime now) {
    Settle(now);
    if (ready_.empty()) return absl::nullopt;
    const Key key = std::get<2>(*ready_.begin());
    ready_.erase(ready_.begin());
    Entry& entry = entries_[key];
    const BootTime ready_at = entry.when;
    entry.state = State::kWorking;
    entry.wanted = false;
    entry.when = now;
    entry.begun = now;
    ++working_;
    return Work{key, now - ready_at};
  }

  // For how long the key was worked on; a key that nobody has gives absent.
  absl::optional<absl::Duration> Done(const Key& key, BootTime now) {
    const auto found = entries_.find(key);
    if (found == entries_.end() || found->second.state != State::kWorking) return absl::nullopt;
    Entry& entry = found->second;
    const absl::Duration took = now - entry.begun;
    --working_;
    entry.state = State::kIdle;
    entry.not_before = shutting_down_ ? now : now + options_.min_interval;
    if (shutting_down_) entry.when = now;
    resting_.insert({entry.not_before, key});
    if (entry.wanted) Delay(key, entry);
    Settle(now);
    return took;
  }

  // What waits for a time is dropped and nothing is taken any more. With `drain`, what is ready is
  // still given out; else that is dropped too.
  void ShutDown(bool drain, BootTime now) {
    Settle(now);
    shutting_down_ = true;
    for (const auto& [when, key] : delayed_) entries_[key].wanted = false;
    delayed_.clear();
    if (!drain) ready_.clear();
    for (auto& [key, entry] : entries_) {
      if (entry.state == State::kDelayed || (!drain && entry.state == State::kReady)) {
        entry.state = State::kIdle;
      }
      // What came while it was worked on.
      if (entry.state == State::kWorking && !drain) entry.wanted = false;
      // A drain does not wait for intervals.
      entry.not_before = BootTime::InfinitePast();
    }
  }
  bool shutting_down() const { return shutting_down_; }
  // After ShutDown: nothing is left to be given out or done.
  bool drained() const { return shutting_down_ && ready_.empty() && working_ == 0; }

  // When Get may have more without an Add; InfiniteFuture if never.
  BootTime NextWake() const {
    return delayed_.empty() ? BootTime::InfiniteFuture() : delayed_.begin()->first;
  }
  // Ready keys.
  size_t depth() const { return ready_.size(); }
  size_t delayed() const { return delayed_.size(); }
  size_t working() const { return working_; }
  uint64_t retries() const { return retries_; }
  // Keys that it remembers anything of.
  size_t known() const { return entries_.size(); }

 private:
  enum class State { kIdle, kDelayed, kReady, kWorking };
  struct Entry {
    State state = State::kIdle;
    // It is to become ready at `when`.
    bool wanted = false;
    int priority = 0;
    uint32_t failures = 0;
    uint64_t order = 0;
    BootTime when;
    BootTime begun;
    BootTime not_before = BootTime::InfinitePast();
    // Its place in delayed_.
    BootTime delayed_until;
  };
  using Entries = absl::flat_hash_map<Key, Entry>;

  void Delay(const Key& key, Entry& entry) {
    if (entry.state == State::kDelayed) delayed_.erase({entry.delayed_until, key});
    entry.state = State::kDelayed;
    entry.delayed_until = std::max(entry.when, entry.not_before);
    delayed_.insert({entry.delayed_until, key});
  }

  // Makes ready what is due and forgets what has rested.
  void Settle(BootTime now) {
    while (!delayed_.empty() && delayed_.begin()->first <= now) {
      const Key key = delayed_.begin()->second;
      Entry& entry = entries_[key];
      delayed_.erase(delayed_.begin());
      entry.state = State::kReady;
      entry.when = entry.delayed_until;
      entry.order = next_order_++;
      ready_.insert({-entry.priority, entry.order, key});
    }
    while (!resting_.empty() && resting_.begin()->first <= now) {
      const auto found = entries_.find(resting_.begin()->second);
      resting_.erase(resting_.begin());
      if (found != entries_.end()) DropIfIdle(found);
    }
  }

  void DropIfIdle(typename Entries::iterator entry) {
    if (entry->second.state != State::kIdle || entry->second.failures > 0) return;
    if (resting_.count({entry->second.not_before, entry->first}) > 0) return;
    entries_.erase(entry);
  }

  // How long until the bucket has a token for the caller, which has then taken it.
  absl::Duration TakeToken(BootTime now) {
    const BootTime full = now - options_.bucket_interval * options_.bucket_burst;
    bucket_ = std::max(bucket_, full) + options_.bucket_interval;
    return std::max(bucket_ - now, absl::ZeroDuration());
  }

  const WorkQueueOptions options_;
  Entries entries_;
  std::set<std::tuple<int, uint64_t, Key>> ready_;
  std::set<std::pair<BootTime, Key>> delayed_;
  std::set<std::pair<BootTime, Key>> resting_;
  size_t working_ = 0;
  uint64_t next_order_ = 0;
  uint64_t retries_ = 0;
  BootTime bucket_ = BootTime::InfinitePast();
  bool shutting_down_ = false;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_WORK_QUEUE_WORK_QUEUE_CORE_H_
