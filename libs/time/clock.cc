#include "libs/time/clock.h"

namespace capstan {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

}  // namespace

BootTime operator+(BootTime t, absl::Duration d) {
  if (t.ns_ == kMax || t.ns_ == kMin) return t;
  if (d == absl::InfiniteDuration()) return BootTime::InfiniteFuture();
  if (d == -absl::InfiniteDuration()) return BootTime::InfinitePast();
  // A wall clock may stand between two nanoseconds. Upwards: who waits for what is left until a time
  // of it must not be back at once, before that, for ever.
  int64_t ns = absl::ToInt64Nanoseconds(d);
  if (ns < kMax && absl::Nanoseconds(ns) < d) ++ns;
  int64_t sum = 0;
  if (__builtin_add_overflow(t.ns_, ns, &sum)) {
    return d > absl::ZeroDuration() ? BootTime::InfiniteFuture() : BootTime::InfinitePast();
  }
  return BootTime(sum);
}

absl::Duration operator-(BootTime a, BootTime b) {
  if (a == b) return absl::ZeroDuration();
  if (a.ns_ == kMax || b.ns_ == kMin) return absl::InfiniteDuration();
  if (a.ns_ == kMin || b.ns_ == kMax) return -absl::InfiniteDuration();
  return absl::Nanoseconds(a.ns_) - absl::Nanoseconds(b.ns_);
}

}  // namespace capstan
