#include "libs/time/system_cpu_clock.h"

#include <time.h>

namespace capstan {

absl::Duration SystemCpuClock::Read() const {
  timespec used{};
  // It cannot fail: the clock exists on every kernel Capstan runs on.
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return absl::DurationFromTimespec(used);
}

}  // namespace capstan
