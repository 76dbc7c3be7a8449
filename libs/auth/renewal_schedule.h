// When SVIDs are renewed: pure, so that every owner of one does it alike.
#ifndef CAPSTAN_LIBS_AUTH_RENEWAL_SCHEDULE_H_
#define CAPSTAN_LIBS_AUTH_RENEWAL_SCHEDULE_H_

#include "absl/time/time.h"

namespace capstan::auth {

// When an SVID is due for renewal: a third of its life after its start, so that credentials may be
// away for the other two thirds before anything is lost.
absl::Time RenewalTime(absl::Time not_before, absl::Time not_after);

// The least time from one renewal to the next: an issuer whose clock is behind could hand out what
// is due at once. A minute, or a tenth of a shorter life.
absl::Duration ShortestRenewalInterval(absl::Time not_before, absl::Time not_after);

// Delay before try number `failures` + 1: doubling from 5 s to 5 min, but never more than a
// twentieth of what is left of the SVID. `jitter` in [0, 1) spreads it over the upper half.
absl::Duration RenewalRetryDelay(int failures, absl::Duration left, double jitter);

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_RENEWAL_SCHEDULE_H_
