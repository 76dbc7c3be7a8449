#ifndef CAPSTAN_LIBS_KUBE_WORK_QUEUE_WORK_QUEUE_H_
#define CAPSTAN_LIBS_KUBE_WORK_QUEUE_WORK_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/kube/work_queue/work_queue_core.h"
#include "libs/kube/work_queue/work_queue_metrics.h"
#include "libs/time/clock.h"

namespace capstan::kube {

struct WorkQueueStats {
  // Ready, waiting for a time, and given out.
  size_t depth = 0;
  size_t delayed = 0;
  size_t working = 0;
  // Calls of Add and AddAfter, and of AddRateLimited.
  uint64_t adds = 0;
  uint64_t retries = 0;
  // Of the work in hand; zero if there is none.
  absl::Duration longest_running;
};

// A WorkQueueCore for any number of threads: those that work block in Get. Its rules (one worker a
// key, priorities, back-off, min_interval) are the core's.
//
// Time is the clock's; it waits in real time and looks at the clock again, at the latest when the
// next key should be ready. So a clock that is moved by hand needs Wake after each move.
template <typename Key>
class WorkQueue {
 public:
  // `clock` and `metrics`, if any, must outlive it.
  WorkQueue(const WorkQueueOptions& options, const Clock* clock,
            WorkQueueMetrics* metrics = nullptr)
      : clock_(clock), metrics_(metrics), core_(options) {}
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void Add(const Key& key, int priority = 0) { AddAfter(key, absl::ZeroDuration(), priority); }
  void AddAfter(const Key& key, absl::Duration delay, int priority = 0) {
    if (metrics_ != nullptr) metrics_->CountAdd();
    absl::MutexLock lock(&mutex_);
    ++adds_;
    core_.AddAfter(key, delay, Now(), priority);
    Changed();
  }
  void AddRateLimited(const Key& key, int priority = 0) {
    if (metrics_ != nullptr) metrics_->CountRetry();
    absl::MutexLock lock(&mutex_);
    core_.AddRateLimited(key, Now(), priority);
    Changed();
  }
  void Forget(const Key& key) {
    absl::MutexLock lock(&mutex_);
    core_.Forget(key);
  }
  uint32_t failures(const Key& key) const {
    absl::MutexLock lock(&mutex_);
    return core_.failures(key);
  }

  // Blocks until a key is ready, which is the caller's until Done. Absent after ShutDown, once
  // nothing is left to be given out; what is still worked on may yet give more, and is waited for.
  absl::optional<Key> Get() {
    absl::MutexLock lock(&mutex_);
    while (true) {
      const BootTime now = Now();
      absl::optional<typename WorkQueueCore<Key>::Work> work = core_.Get(now);
      if (work.has_value()) {
        begun_[work->key] = now;
        if (metrics_ != nullptr) metrics_->ObserveWait(work->waited);
        Changed();
        return std::move(work->key);
      }
      if (core_.drained()) return absl::nullopt;
      const BootTime wake = core_.NextWake();
      if (wake == BootTime::InfiniteFuture()) {
        changed_.Wait(&mutex_);
      } else {
        // At least something, lest a clock that stands still makes it spin.
        changed_.WaitWithTimeout(&mutex_, std::max(wake - now, absl::Milliseconds(1)));
      }
    }
  }

  void Done(const Key& key) {
    absl::MutexLock lock(&mutex_);
    const absl::optional<absl::Duration> took = core_.Done(key, Now());
    if (took.has_value() && metrics_ != nullptr) metrics_->ObserveWork(*took);
    begun_.erase(key);
    Changed();
  }

  // Takes no more. With `drain`, what is ready is still given out, else dropped; what waits for a
  // time is dropped. The Gets that wait end when nothing is left and all is Done.
  void ShutDown(bool drain) {
    absl::MutexLock lock(&mutex_);
    core_.ShutDown(drain, Now());
    Changed();
  }

  // The clock was moved.
  void Wake() {
    absl::MutexLock lock(&mutex_);
    Changed();
  }

  WorkQueueStats stats() const {
    absl::MutexLock lock(&mutex_);
    WorkQueueStats stats{core_.depth(), core_.delayed(), core_.working(),
                         adds_,         core_.retries(), LongestRunning()};
    return stats;
  }
  // What is worked on and for how long, in no order.
  std::vector<std::pair<Key, absl::Duration>> running() const {
    absl::MutexLock lock(&mutex_);
    std::vector<std::pair<Key, absl::Duration>> running;
    const BootTime now = Now();
    for (const auto& [key, begun] : begun_) running.push_back({key, now - begun});
    return running;
  }

 private:
  BootTime Now() const { return clock_->Read().boot; }

  absl::Duration LongestRunning() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    BootTime first = Now();
    const BootTime now = first;
    for (const auto& [key, begun] : begun_) first = std::min(first, begun);
    return now - first;
  }
  void Changed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (metrics_ != nullptr) metrics_->Set(core_.depth(), core_.working(), LongestRunning());
    // Who wakes and finds a key wakes the next; at the end all have to see it.
    if (core_.shutting_down()) {
      changed_.SignalAll();
    } else {
      changed_.Signal();
    }
  }

  const Clock* const clock_;
  WorkQueueMetrics* const metrics_;
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  WorkQueueCore<Key> core_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Key, BootTime> begun_ ABSL_GUARDED_BY(mutex_);
  uint64_t adds_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_WORK_QUEUE_WORK_QUEUE_H_
