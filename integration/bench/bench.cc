#include "integration/bench/bench.h"

#include <poll.h>

#include <algorithm>

namespace capstan::bench {
namespace {

// Below what any figure that is found by asking is rounded to.
constexpr absl::Duration kAskEvery = absl::Milliseconds(2);

}  // namespace

void Pause(absl::Duration time) {
  poll(nullptr, 0, static_cast<int>(std::max<int64_t>(absl::ToInt64Milliseconds(time), 1)));
}

bool AskUntil(const Clock* clock, absl::Duration time_out, const std::function<bool()>& condition) {
  const Stopwatch watch(clock);
  while (!condition()) {
    if (watch.Elapsed() >= time_out) return false;
    Pause(kAskEvery);
  }
  return true;
}

}  // namespace capstan::bench
