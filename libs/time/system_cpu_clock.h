#ifndef CAPSTAN_LIBS_TIME_SYSTEM_CPU_CLOCK_H_
#define CAPSTAN_LIBS_TIME_SYSTEM_CPU_CLOCK_H_

#include "absl/time/time.h"
#include "libs/time/cpu_clock.h"

namespace capstan {

// The machine's CLOCK_THREAD_CPUTIME_ID. Made where a process is put together only.
class SystemCpuClock final : public CpuClock {
 public:
  absl::Duration Read() const override;
};

}  // namespace capstan

#endif  // CAPSTAN_LIBS_TIME_SYSTEM_CPU_CLOCK_H_
