#ifndef CAPSTAN_LIBS_STORE_TESTING_PUMPED_STRAND_H_
#define CAPSTAN_LIBS_STORE_TESTING_PUMPED_STRAND_H_

#include <deque>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "libs/strand/strand.h"
#include "libs/time/simulated_clock.h"

namespace capstan::store {

// A Strand for tests of things that have threads of their own: its tasks run on the test's thread,
// inside RunUntil and Advance; other threads may post. Time is simulated.
class PumpedStrand final : public Strand {
 public:
  void Post(Task task) override;
  TimerId RunAt(BootTime when, Task task) override;
  bool Cancel(TimerId timer) override;
  const Clock& clock() const override { return clock_; }

  // Runs tasks as they come until `done` holds; false if that takes longer than 60 s of real time.
  bool RunUntil(absl::FunctionRef<bool()> done);
  // Runs tasks as they come for so long of real time, with the simulated clock going along: for
  // servers outside, which have no other.
  void RunFor(absl::Duration real);
  // Runs what is queued now and what that posts.
  void RunReady();
  // Moves the clock, running each timer at its time, and what is queued.
  void Advance(absl::Duration d);

 private:
  // Runs one task; false if none is queued.
  bool RunOne();
  void QueueDueTimers();

  SimulatedClock clock_;
  absl::Mutex mutex_;
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<BootTime, TimerId>, Task> timers_ ABSL_GUARDED_BY(mutex_);
  std::map<TimerId, BootTime> timer_times_ ABSL_GUARDED_BY(mutex_);
  TimerId next_timer_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace capstan::store

#endif  // CAPSTAN_LIBS_STORE_TESTING_PUMPED_STRAND_H_
