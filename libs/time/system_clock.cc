#include "libs/time/system_clock.h"

#include <time.h>

#include "absl/time/time.h"

namespace capstan {

Now SystemClock::Read() const {
  timespec wall{};
  timespec boot{};
  // Neither can fail: both clocks exist on every kernel Capstan runs on.
  ::clock_gettime(CLOCK_REALTIME, &wall);
  ::clock_gettime(CLOCK_BOOTTIME, &boot);
  return Now{
      absl::TimeFromTimespec(wall),
      BootTime::FromNanoseconds(static_cast<int64_t>(boot.tv_sec) * 1'000'000'000 + boot.tv_nsec)};
}

}  // namespace capstan
