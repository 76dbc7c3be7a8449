#include "services/scheduler/core/quota/usage_history.h"

#include <algorithm>

#include "services/scheduler/core/quota/share.h"

namespace capstan::scheduler {
namespace {

constexpr int kFractionBits = 32;
// Of the exponent's fraction.
constexpr int kExponentBits = 40;
constexpr int kRootBits = 62;

constexpr uint64_t IntegerRoot(Wide square) {
  Wide low = 0, high = Wide{1} << 63;
  while (low + 1 < high) {
    const Wide middle = (low + high) / 2;
    (middle * middle <= square ? low : high) = middle;
  }
  return static_cast<uint64_t>(low);
}

// kRoots[k] = 2^(-1 / 2^(k + 1)) in 2^-62.
constexpr std::array<uint64_t, kExponentBits> MakeRoots() {
  std::array<uint64_t, kExponentBits> roots = {};
  uint64_t value = uint64_t{1} << (kRootBits - 1);
  for (uint64_t& root : roots) {
    value = IntegerRoot(static_cast<Wide>(value) << kRootBits);
    root = value;
  }
  return roots;
}

constexpr std::array<uint64_t, kExponentBits> kRoots = MakeRoots();

// Bounded to about 292 years, beyond which nothing is left anyway.
uint64_t Nanoseconds(absl::Duration d) {
  return static_cast<uint64_t>(std::clamp<int64_t>(absl::ToInt64Nanoseconds(d), 1, INT64_MAX));
}

}  // namespace

uint64_t Decay(absl::Duration elapsed, absl::Duration half_life) {
  const uint64_t numerator = Nanoseconds(elapsed), denominator = Nanoseconds(half_life);
  const uint64_t halvings = numerator / denominator;
  if (halvings > kDecayBits) return 0;
  const uint64_t fraction = static_cast<uint64_t>(
      (static_cast<Wide>(numerator % denominator) << kExponentBits) / denominator);
  uint64_t kept = uint64_t{1} << kRootBits;
  for (int k = 0; k < kExponentBits; ++k) {
    if ((fraction >> (kExponentBits - 1 - k) & 1) == 0) continue;
    kept = static_cast<uint64_t>(static_cast<Wide>(kept) * kRoots[k] >> kRootBits);
  }
  const int shift = static_cast<int>(halvings) + kRootBits - kDecayBits;
  // At a shift of 62 only a half or less is left.
  return ((kept >> (shift - 1)) + 1) >> 1;
}

void Advance(UsageHistory& history, const Resources& used, absl::Duration half_life,
             absl::Time now) {
  if (half_life <= absl::ZeroDuration()) {
    history = UsageHistory{.as_of = now};
    return;
  }
  if (history.as_of == absl::InfinitePast()) history.as_of = now;
  if (now <= history.as_of) return;
  const uint64_t kept = Decay(now - history.as_of, half_life);
  const uint64_t added = (uint64_t{1} << kDecayBits) - kept;
  const Wide half = Wide{1} << (kDecayBits - 1);
  for (int r = 0; r < kMaxResources; ++r) {
    const Wide before =
        static_cast<Wide>(history.average[r]) << kFractionBits | history.fraction[r];
    const Wide use = static_cast<Wide>(std::max<int64_t>(0, used[r])) << kFractionBits;
    // Both are below 2^88, hence the sum of the products below 2^126.
    const Wide average = (before * kept + use * added + half) >> kDecayBits;
    history.average[r] = static_cast<int64_t>(average >> kFractionBits);
    history.fraction[r] = static_cast<uint32_t>(average);
  }
  history.as_of = now;
}

}  // namespace capstan::scheduler
