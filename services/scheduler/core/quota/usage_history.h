#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_USAGE_HISTORY_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_USAGE_HISTORY_H_

#include <array>
#include <cstdint>

#include "absl/time/time.h"
#include "services/scheduler/core/quota/resources.h"

namespace capstan::scheduler {

// What a queue used in the past, the recent counting more: the average over time with weight
// 2^(-age / half-life). A steady use of u goes to u; what is no longer used halves each half-life.
// A plain value: storing its fields and reading them back loses nothing. Time is the wall clock's,
// since a history outlives reboots and leaders; a clock that steps back stops it until it is past
// again, so nothing is ever counted twice.
struct UsageHistory {
  // Whole part of the averages.
  Resources average = {};
  // Their fractions in 2^-32.
  std::array<uint32_t, kMaxResources> fraction = {};
  // Up to when usage is counted; before all times if nothing is yet.
  absl::Time as_of = absl::InfinitePast();

  friend bool operator==(const UsageHistory&, const UsageHistory&) = default;
};

// Counts that `used` was in use from `history.as_of` to `now`. The first call only sets the time. A
// half-life of zero or less keeps no history. Integer arithmetic, the same on every machine; the
// result is off by less than 2^-32 of a unit and 2^-38 of the amount a call, so it is called when
// usage changes or is read, not at a high rate.
void Advance(UsageHistory& history, const Resources& used, absl::Duration half_life,
             absl::Time now);

// 2^(-elapsed / half_life) in 2^-kDecayBits, to the nearest; both positive.
inline constexpr int kDecayBits = 38;
uint64_t Decay(absl::Duration elapsed, absl::Duration half_life);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_USAGE_HISTORY_H_
