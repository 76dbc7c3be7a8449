// Shares of a capacity as exact fractions.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_SHARE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_SHARE_H_

#include <compare>
#include <cstdint>

#include "services/scheduler/core/quota/resources.h"

namespace capstan::scheduler {

using Wide = unsigned __int128;

// The product of two 128-bit numbers, whole.
struct WideProduct {
  Wide high;
  Wide low;

  static constexpr WideProduct Of(Wide a, Wide b) {
    if (((a | b) >> 64) == 0) return {0, a * b};
    const Wide a_high = a >> 64, a_low = static_cast<uint64_t>(a);
    const Wide b_high = b >> 64, b_low = static_cast<uint64_t>(b);
    const Wide low = a_low * b_low;
    // Each term is below 2^128 - 2^65, so that adding 2^64 - 1 cannot overflow.
    const Wide middle = a_high * b_low + (low >> 64);
    const Wide cross = a_low * b_high + static_cast<uint64_t>(middle);
    return {a_high * b_high + (middle >> 64) + (cross >> 64),
            (cross << 64) | static_cast<uint64_t>(low)};
  }
  // High before low.
  friend constexpr auto operator<=>(const WideProduct&, const WideProduct&) = default;
};

// A fraction of 128-bit numbers that is compared exactly, whatever they are. Never rounded: two
// shares are equal only if they are. Infinite where something is used of which there is nothing.
class Share {
 public:
  constexpr Share() = default;
  // amount / (capacity · weight); amount and capacity not negative, weight positive.
  static constexpr Share Of(int64_t amount, int64_t capacity, int64_t weight = 1) {
    if (amount == 0) return Share();
    return Share(static_cast<Wide>(amount), static_cast<Wide>(capacity) * weight);
  }
  static constexpr Share OfFraction(Wide numerator, Wide denominator) {
    return numerator == 0 ? Share() : Share(numerator, denominator);
  }

  constexpr Wide numerator() const { return numerator_; }
  // 0 if infinite.
  constexpr Wide denominator() const { return denominator_; }
  constexpr bool infinite() const { return denominator_ == 0; }

  friend constexpr std::strong_ordering operator<=>(const Share& a, const Share& b) {
    if (a.denominator_ == b.denominator_) return a.numerator_ <=> b.numerator_;
    return WideProduct::Of(a.numerator_, b.denominator_) <=>
           WideProduct::Of(b.numerator_, a.denominator_);
  }
  friend constexpr bool operator==(const Share& a, const Share& b) { return (a <=> b) == 0; }

 private:
  // All infinite shares are alike.
  constexpr Share(Wide numerator, Wide denominator)
      : numerator_(denominator == 0 ? 1 : numerator), denominator_(denominator) {}

  Wide numerator_ = 0;
  Wide denominator_ = 1;
};

// The greatest of amount / capacity over `count` resources, divided by `weight`. A negative amount
// counts as none. Exact for amounts and capacities up to kMaxAmount · 2^7.
inline Share DominantShare(const Resources& amounts, const Resources& capacity, int count,
                           int64_t weight = 1) {
  int64_t amount = 0;
  int64_t of = 1;
  for (int r = 0; r < count; ++r) {
    if (amounts[r] <= 0) continue;
    if (static_cast<Wide>(amounts[r]) * of > static_cast<Wide>(amount) * capacity[r]) {
      amount = amounts[r];
      of = capacity[r];
    }
  }
  return Share::Of(amount, of, weight);
}

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_SHARE_H_
