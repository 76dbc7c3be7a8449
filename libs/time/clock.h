// Time as Capstan reads it. No code outside this package and the mains names a real clock: time is
// read from a Clock that is passed in, and waiting is a timer of a Strand.
#ifndef CAPSTAN_LIBS_TIME_CLOCK_H_
#define CAPSTAN_LIBS_TIME_CLOCK_H_

#include <compare>
#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace capstan {

// A point on CLOCK_BOOTTIME of one machine and one boot. Leases and deadlines count on it, since
// it never steps and goes on during suspend. Points of different machines or boots must never be
// compared; what travels between machines is an age (absl::Duration).
class BootTime {
 public:
  // The boot itself.
  constexpr BootTime() = default;

  static constexpr BootTime FromNanoseconds(int64_t ns) { return BootTime(ns); }
  static constexpr BootTime InfiniteFuture() {
    return BootTime(std::numeric_limits<int64_t>::max());
  }
  static constexpr BootTime InfinitePast() { return BootTime(std::numeric_limits<int64_t>::min()); }

  constexpr int64_t ToNanoseconds() const { return ns_; }

  // Saturate at the infinities, so that "never" plus anything stays "never".
  friend BootTime operator+(BootTime t, absl::Duration d);
  friend BootTime operator-(BootTime t, absl::Duration d) { return t + (-d); }
  friend absl::Duration operator-(BootTime a, BootTime b);
  friend constexpr auto operator<=>(BootTime a, BootTime b) = default;

 private:
  explicit constexpr BootTime(int64_t ns) : ns_(ns) {}

  int64_t ns_ = 0;
};

// One reading of both clocks. `wall` is for records that people read and for certificate validity;
// everything that is counted uses `boot`.
struct Now {
  absl::Time wall;
  BootTime boot;
};

// A source of time. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Now Read() const = 0;
};

}  // namespace capstan

#endif  // CAPSTAN_LIBS_TIME_CLOCK_H_
