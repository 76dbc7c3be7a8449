#ifndef CAPSTAN_LIBS_TIME_SIMULATED_CLOCK_H_
#define CAPSTAN_LIBS_TIME_SIMULATED_CLOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "libs/time/clock.h"

namespace capstan {

// A clock that moves only when told to. Boot and wall time advance together; StepWall moves the
// wall clock alone, as an administrator or NTP would. Thread-safe.
class SimulatedClock final : public Clock {
 public:
  SimulatedClock();
  explicit SimulatedClock(Now start);

  Now Read() const override;

  // `d` must not be negative.
  void Advance(absl::Duration d);
  // May go backwards.
  void StepWall(absl::Duration d);

 private:
  mutable absl::Mutex mutex_;
  Now now_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace capstan

#endif  // CAPSTAN_LIBS_TIME_SIMULATED_CLOCK_H_
