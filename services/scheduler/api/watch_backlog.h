#ifndef CAPSTAN_SERVICES_SCHEDULER_API_WATCH_BACKLOG_H_
#define CAPSTAN_SERVICES_SCHEDULER_API_WATCH_BACKLOG_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

namespace capstan::scheduler {

// What a watcher was not sent yet: objects found by a look at all there are, one after the other in
// an order that stays, and objects behind the look that have changed. Of the latter it keeps only so
// many, however many change while the watcher reads slowly: then it forgets which, and a further look
// finds all that changed since it had been sent everything. Pure; revisions are those of committed
// state, from 0.
template <typename Key>
class WatchBacklog {
 public:
  // Of so many objects. A look at all follows as many messages at least: 256 objects for each.
  static size_t Most(size_t objects) { return std::max<size_t>(1024, objects / 256); }

  // The watcher has everything as of `since`, or, with -1, nothing; `now` is the newest revision.
  WatchBacklog(int64_t since, int64_t now) : since_(since), sent_(now) {}

  // Nothing is to be sent before the look goes on.
  bool MustLook() const { return found_.empty() && changed_.empty() && !looked_; }
  // The watcher is sent all there is, as far as that was told here.
  bool IsDone() const { return found_.empty() && changed_.empty() && looked_; }
  bool IsLooking() const { return !looked_; }
  bool HasNext() const { return !found_.empty() || !changed_.empty(); }

  // The look has come to an object, whose last change that is.
  void Found(Key key, int64_t revision) {
    if (revision > since_) found_.insert(std::move(key));
  }
  // The look has come to its end. True if it must begin again.
  bool EndLook() {
    looked_ = !forgot_;
    if (looked_) return false;
    BeginAgain();
    return true;
  }
  // An object of so many has changed. While it is looking only those are told that the look is past:
  // another is sent as it is then when its turn comes. True if the look must begin again.
  bool Changed(const Key& key, size_t objects) {
    if (forgot_ || found_.count(key) > 0) return false;
    changed_.insert(key);
    if (changed_.size() <= Most(objects)) return false;
    changed_.clear();
    forgot_ = true;
    if (!looked_) return false;
    BeginAgain();
    return true;
  }
  // The next to be sent, as of `revision`; if HasNext().
  Key Next(int64_t revision) {
    std::set<Key>& from = found_.empty() ? changed_ : found_;
    Key key = *from.begin();
    from.erase(from.begin());
    if (changed_.empty() && !forgot_) sent_ = revision;
    return key;
  }

  size_t kept() const { return found_.size() + changed_.size(); }

 private:
  void BeginAgain() {
    looked_ = forgot_ = false;
    since_ = sent_;
  }

  // What the look finds to be older is passed over.
  int64_t since_;
  // As of which everything behind the look was sent or is kept. At first nothing is behind it.
  int64_t sent_;
  std::set<Key> found_;
  std::set<Key> changed_;
  bool looked_ = false;
  // Objects behind the look have changed after `sent_` and were not kept.
  bool forgot_ = false;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_API_WATCH_BACKLOG_H_
