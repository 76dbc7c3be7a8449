#ifndef CAPSTAN_LIBS_STRAND_SIMULATED_STRAND_H_
#define CAPSTAN_LIBS_STRAND_SIMULATED_STRAND_H_

#include <deque>
#include <map>
#include <unordered_set>
#include <utility>

#include "absl/time/time.h"
#include "libs/strand/strand.h"
#include "libs/time/simulated_clock.h"

namespace capstan {

// A Strand that runs only when stepped, on simulated time. For one thread.
class SimulatedStrand final : public Strand {
 public:
  // `clock` must outlive the strand.
  explicit SimulatedStrand(SimulatedClock* clock) : clock_(clock) {}

  void Post(Task task) override { queue_.push_back({0, std::move(task)}); }
  TimerId RunAt(BootTime when, Task task) override;
  bool Cancel(TimerId timer) override;
  const Clock& clock() const override { return *clock_; }

  // Runs what is queued and what is due, and what that posts in turn, without moving the clock.
  void RunReady();
  // Moves the clock by `d`, stopping at each timer on the way to run it at its own time.
  void Advance(absl::Duration d);
  // Advances to the next timer and runs it. False if no timer is armed and nothing is queued.
  bool RunNext();
  // Number of armed timers.
  size_t armed() const { return timers_.size(); }
  // When the next timer is due; InfiniteFuture if none is armed.
  BootTime next_timer_time() const {
    return timers_.empty() ? BootTime::InfiniteFuture() : timers_.begin()->first.first;
  }

 private:
  struct Queued {
    // 0 for a posted task.
    TimerId timer = 0;
    Task task;
  };
  SimulatedClock* const clock_;
  std::deque<Queued> queue_;
  // Timers in the queue; one that is taken out of here was cancelled and does not run.
  std::unordered_set<TimerId> due_;
  std::map<std::pair<BootTime, TimerId>, Task> timers_;
  std::map<TimerId, BootTime> timer_times_;
  TimerId next_timer_ = 1;
};

}  // namespace capstan

#endif  // CAPSTAN_LIBS_STRAND_SIMULATED_STRAND_H_
