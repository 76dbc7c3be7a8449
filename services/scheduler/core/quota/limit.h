#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_LIMIT_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_LIMIT_H_

#include <cstdint>

namespace capstan::scheduler {

// An amount that somebody may have set. Three things that are often mixed up and mean different
// things: unset (whoever is asked next decides), zero (nothing), unlimited (no bound).
class Limit {
 public:
  // Unset.
  constexpr Limit() = default;
  static constexpr Limit Of(int64_t amount) { return Limit(State::kAmount, amount); }
  static constexpr Limit Unlimited() { return Limit(State::kUnlimited, 0); }

  constexpr bool set() const { return state_ != State::kUnset; }
  constexpr bool unlimited() const { return state_ == State::kUnlimited; }
  constexpr bool has_amount() const { return state_ == State::kAmount; }
  // Only with has_amount().
  constexpr int64_t amount() const { return amount_; }

  friend constexpr bool operator==(const Limit&, const Limit&) = default;

 private:
  enum class State : uint8_t { kUnset, kAmount, kUnlimited };

  constexpr Limit(State state, int64_t amount) : state_(state), amount_(amount) {}

  State state_ = State::kUnset;
  int64_t amount_ = 0;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_QUOTA_LIMIT_H_
