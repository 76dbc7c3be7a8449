#ifndef CAPSTAN_LIBS_TIME_SYSTEM_CLOCK_H_
#define CAPSTAN_LIBS_TIME_SYSTEM_CLOCK_H_

#include "libs/time/clock.h"

namespace capstan {

// The machine's CLOCK_REALTIME and CLOCK_BOOTTIME. Made in mains only.
class SystemClock final : public Clock {
 public:
  Now Read() const override;
};

}  // namespace capstan

#endif  // CAPSTAN_LIBS_TIME_SYSTEM_CLOCK_H_
