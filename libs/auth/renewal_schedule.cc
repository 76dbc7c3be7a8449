#include "libs/auth/renewal_schedule.h"

#include <algorithm>
#include <cmath>

namespace capstan::auth {
namespace {

constexpr absl::Duration kFirstRetry = absl::Seconds(5);
constexpr absl::Duration kLongestRetry = absl::Minutes(5);

}  // namespace

absl::Time RenewalTime(absl::Time not_before, absl::Time not_after) {
  return not_before + (not_after - not_before) / 3;
}

absl::Duration ShortestRenewalInterval(absl::Time not_before, absl::Time not_after) {
  return std::min(absl::Minutes(1), (not_after - not_before) / 10);
}

absl::Duration RenewalRetryDelay(int failures, absl::Duration left, double jitter) {
  const absl::Duration doubled = kFirstRetry * std::ldexp(1.0, std::min(failures, 10));
  const absl::Duration bound = std::max(absl::Seconds(1), std::min(kLongestRetry, left / 20));
  const absl::Duration ceiling = std::min(doubled, bound);
  return ceiling / 2 + ceiling * (jitter / 2);
}

}  // namespace capstan::auth
