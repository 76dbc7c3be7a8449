#include "libs/time/simulated_clock.h"

#include <cassert>

namespace capstan {

// The start is arbitrary but fixed, so that runs are reproducible: 2026-01-01T00:00:00Z, an hour
// after boot.
SimulatedClock::SimulatedClock()
    : SimulatedClock(Now{absl::FromUnixSeconds(1'767'225'600), BootTime() + absl::Hours(1)}) {}

SimulatedClock::SimulatedClock(Now start) : now_(start) {}

Now SimulatedClock::Read() const {
  absl::MutexLock lock(&mutex_);
  return now_;
}

void SimulatedClock::Advance(absl::Duration d) {
  assert(d >= absl::ZeroDuration());
  absl::MutexLock lock(&mutex_);
  now_.wall += d;
  now_.boot = now_.boot + d;
}

void SimulatedClock::StepWall(absl::Duration d) {
  absl::MutexLock lock(&mutex_);
  now_.wall += d;
}

}  // namespace capstan
