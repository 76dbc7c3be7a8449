#ifndef CAPSTAN_LIBS_TIME_CPU_CLOCK_H_
#define CAPSTAN_LIBS_TIME_CPU_CLOCK_H_

#include "absl/time/time.h"

namespace capstan {

// What the calling thread has taken of processors. Only what lies between two readings on one
// thread means something. Thread-safe.
class CpuClock {
 public:
  virtual ~CpuClock() = default;
  virtual absl::Duration Read() const = 0;
};

}  // namespace capstan

#endif  // CAPSTAN_LIBS_TIME_CPU_CLOCK_H_
