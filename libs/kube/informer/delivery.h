#ifndef CAPSTAN_LIBS_KUBE_INFORMER_DELIVERY_H_
#define CAPSTAN_LIBS_KUBE_INFORMER_DELIVERY_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/informer/cache.h"
#include "libs/kube/informer/change_queue.h"
#include "libs/kube/informer/kept_object.h"
#include "libs/strand/strand.h"

namespace capstan::kube {

template <typename T>
struct Handler {
  // Called with one change at a time. `initial`: the change is of what was there when the handler
  // came, or of the first list.
  std::function<void(const CacheChange<T>& change, bool initial)> on_change;
  // Once, after the first list, or what was there when the handler came, has been told. May be
  // null.
  std::function<void()> on_synced;
  // Each object is told once more after this, over and over, as a change from itself to itself: for
  // who must look again at what lies outside of the cache. From on_synced on; each time an entry
  // for each object waits (ChangeQueue). Above zero; infinite: never.
  absl::Duration resync = absl::InfiniteDuration();
};

// Tells one handler of changes, on a strand of the handler's choice: a few of them each time, so
// that others get their turn there. At most one task is posted at a time; what waits is merged by
// object, and decoded when its turn comes. Thread-safe; owned by a shared_ptr.
template <typename T>
class Delivery : public std::enable_shared_from_this<Delivery<T>> {
 public:
  // `resync` calls PushAgain with what is there; with no call of the handler under way, and not
  // after Stop has returned.
  Delivery(Handler<T> handler, Strand* strand, std::function<void(Delivery&)> resync)
      : handler_(std::move(handler)),
        resync_(std::move(resync)),
        timers_(strand),
        strand_(strand->remote()) {}

  // False once it is stopped.
  bool Push(const std::vector<CacheChange<KeptObject<T>>>& changes) {
    if (changes.empty()) return true;
    bool post = false;
    {
      absl::MutexLock lock(&mutex_);
      if (stopped_) return false;
      for (const CacheChange<KeptObject<T>>& change : changes) queue_.Push(change);
      post = Schedule();
    }
    if (post) Post();
    return true;
  }

  void PushAgain(std::vector<std::shared_ptr<const KeptObject<T>>> objects) {
    bool post = false;
    {
      absl::MutexLock lock(&mutex_);
      if (stopped_) return;
      for (auto& object : objects) queue_.PushAgain(std::move(object));
      post = queue_.size() > 0 && Schedule();
    }
    if (post) Post();
  }

  // The first list has been pushed. Later calls do nothing.
  void MarkSynced() {
    bool post = false;
    {
      absl::MutexLock lock(&mutex_);
      if (marked_) return;
      marked_ = true;
      queue_.MarkSynced();
      post = Schedule();
    }
    if (post) Post();
  }

  // The handler was told the first list.
  bool synced() const {
    absl::MutexLock lock(&mutex_);
    return told_;
  }
  bool stopped() const {
    absl::MutexLock lock(&mutex_);
    return stopped_;
  }
  // Objects that wait.
  size_t depth() const {
    absl::MutexLock lock(&mutex_);
    return queue_.size();
  }

  // Waits for the handler if it runs; afterwards it is not called any more. Idempotent.
  void Stop() {
    absl::MutexLock gate(&gate_);
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    queue_ = {};
    if (timer_ != 0) timers_->Cancel(timer_);
    timer_ = 0;
  }

 private:
  static constexpr int kBatch = 32;

  static std::shared_ptr<const T> Decode(const std::shared_ptr<const KeptObject<T>>& kept) {
    return kept == nullptr ? nullptr : kept->Decode();
  }

  bool Schedule() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (stopped_ || scheduled_) return false;
    scheduled_ = true;
    return true;
  }
  void Post() {
    strand_.Post([self = this->shared_from_this()] { self->Run(); });
  }

  void Run() {
    for (int i = 0; i < kBatch; ++i) {
      if (!RunOne()) return;
    }
    Post();
  }

  // False if nothing is left to do; then a push posts again.
  bool RunOne() {
    absl::MutexLock gate(&gate_);
    absl::optional<CacheChange<KeptObject<T>>> change;
    bool initial = false, synced = false;
    {
      absl::MutexLock lock(&mutex_);
      if (stopped_) return false;
      // The last change of the first list has been told by now, if the queue says so.
      synced = queue_.synced() && !told_;
      if (synced) {
        told_ = true;
        SetTimer();
      }
      initial = !told_;
      change = queue_.Pop();
      if (!change.has_value() && !synced) {
        scheduled_ = false;
        return false;
      }
    }
    if (synced && handler_.on_synced) handler_.on_synced();
    if (change.has_value()) {
      handler_.on_change(
          {Decode(change->before), Decode(change->after), Decode(change->last_known)}, initial);
    }
    return true;
  }

  // On the strand.
  void SetTimer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (handler_.resync == absl::InfiniteDuration()) return;
    timer_ = timers_->RunAfter(handler_.resync, [weak = this->weak_from_this()] {
      if (const auto self = weak.lock()) self->OnTimer();
    });
  }

  void OnTimer() {
    absl::MutexLock gate(&gate_);
    {
      absl::MutexLock lock(&mutex_);
      if (stopped_) return;
      SetTimer();
    }
    resync_(*this);
  }

  const Handler<T> handler_;
  const std::function<void(Delivery&)> resync_;
  // For its timers, while it is there: on the strand, and until Stop.
  Strand* const timers_;
  const Strand::Remote strand_;
  // Held while the handler, or the informer for it, runs.
  absl::Mutex gate_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable absl::Mutex mutex_;
  ChangeQueue<KeptObject<T>> queue_ ABSL_GUARDED_BY(mutex_);
  Strand::TimerId timer_ ABSL_GUARDED_BY(mutex_) = 0;
  bool scheduled_ ABSL_GUARDED_BY(mutex_) = false;
  bool marked_ ABSL_GUARDED_BY(mutex_) = false;
  bool told_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_INFORMER_DELIVERY_H_
