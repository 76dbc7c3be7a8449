// What every measurement is given, and how it tells what it found.
#ifndef CAPSTAN_INTEGRATION_BENCH_BENCH_H_
#define CAPSTAN_INTEGRATION_BENCH_BENCH_H_

#include <functional>

#include "absl/time/time.h"
#include "integration/bench/figure.h"
#include "libs/time/clock.h"

namespace capstan::bench {

struct Bench {
  // True: as little as shows that everything works; the figures say nothing.
  bool smoke = false;
  const Clock* clock = nullptr;
  // Prints a figure at once, so that what was measured before an error is not lost.
  std::function<void(const Figure&)> report;

  int Runs(int full) const { return smoke ? 1 : full; }
  int Count(int full, int few) const { return smoke ? few : full; }
  absl::Duration Time(absl::Duration full) const { return smoke ? absl::Milliseconds(300) : full; }
};

class Stopwatch {
 public:
  explicit Stopwatch(const Clock* clock) : clock_(clock), begun_(clock->Read().boot) {}
  absl::Duration Elapsed() const { return clock_->Read().boot - begun_; }

 private:
  const Clock* const clock_;
  const BootTime begun_;
};

// Blocks the calling thread, for what has to be asked again and again or observed for a while.
void Pause(absl::Duration time);
// Asks every few milliseconds until it is true; false if it has not become so in time.
bool AskUntil(const Clock* clock, absl::Duration time_out, const std::function<bool()>& condition);

}  // namespace capstan::bench

#endif  // CAPSTAN_INTEGRATION_BENCH_BENCH_H_
