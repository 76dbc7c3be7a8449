#ifndef CAPSTAN_LIBS_STRAND_THREAD_STRAND_H_
#define CAPSTAN_LIBS_STRAND_THREAD_STRAND_H_

#include <deque>
#include <map>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "libs/strand/strand.h"

namespace capstan {

// A Strand on a thread of its own. The destructor runs the task in hand to its end, destroys what
// is queued, and joins the thread; it must not be called from a task.
class ThreadStrand final : public Strand {
 public:
  // `name` shows in /proc (15 characters); `clock` must outlive the strand and run at the rate of
  // real time.
  ThreadStrand(const std::string& name, const Clock* clock);
  ~ThreadStrand() override;

  void Post(Task task) override;
  TimerId RunAt(BootTime when, Task task) override;
  bool Cancel(TimerId timer) override;
  const Clock& clock() const override { return *clock_; }

  // Stops the strand early; idempotent. Whatever the tasks refer to may be destroyed afterwards.
  void Stop();

 private:
  struct Queued {
    // 0 for a posted task.
    TimerId timer = 0;
    Task task;
  };
  using TimerKey = std::pair<BootTime, TimerId>;

  void Loop();

  const Clock* const clock_;
  absl::Mutex mutex_;
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mutex_);
  // Timers in the queue; one that is taken out of here was cancelled and does not run.
  std::unordered_set<TimerId> due_ ABSL_GUARDED_BY(mutex_);
  std::map<TimerKey, Task> timers_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<TimerId, BootTime> timer_times_ ABSL_GUARDED_BY(mutex_);
  TimerId next_timer_ ABSL_GUARDED_BY(mutex_) = 1;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace capstan

#endif  // CAPSTAN_LIBS_STRAND_THREAD_STRAND_H_
