#ifndef CAPSTAN_LIBS_STRAND_STRAND_H_
#define CAPSTAN_LIBS_STRAND_STRAND_H_

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "libs/time/clock.h"

namespace capstan {

// A serial task queue with timers: the one place where an engine's state is touched. Tasks run one
// at a time, in the order in which they were posted; a timer's task runs at or after its time, in
// the order of (time, arming). Tasks must not block.
//
// Post, RunAt and Cancel may be called from any thread, also from a task. After the strand has
// begun to stop, posted tasks are destroyed without being run.
class Strand {
 public:
  using Task = absl::AnyInvocable<void()>;
  // Identifies an armed timer; 0 is never one.
  using TimerId = uint64_t;

  virtual ~Strand() = default;

  virtual void Post(Task task) = 0;
  // Runs `task` once the clock reaches `when`; at once (but not inline) if it already has.
  virtual TimerId RunAt(BootTime when, Task task) = 0;
  TimerId RunAfter(absl::Duration delay, Task task) {
    return RunAt(clock().Read().boot + delay, std::move(task));
  }
  // True if the timer was armed and now will not run. On the strand itself a false return means
  // that it has run or was cancelled; from another thread it may also be about to run.
  virtual bool Cancel(TimerId timer) = 0;

  // The clock that the timers follow.
  virtual const Clock& clock() const = 0;
};

}  // namespace capstan

#endif  // CAPSTAN_LIBS_STRAND_STRAND_H_
