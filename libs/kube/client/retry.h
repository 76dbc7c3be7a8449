// Which calls are made again, and when.
#ifndef CAPSTAN_LIBS_KUBE_CLIENT_RETRY_H_
#define CAPSTAN_LIBS_KUBE_CLIENT_RETRY_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/random/random.h"
#include "libs/time/clock.h"

namespace capstan::kube {

// What it does to send a request again that the server may have carried out.
enum class Repeat {
  // It may do something else, or twice: a create, a patch without precondition.
  kHarmful,
  // Nothing that was not asked for: a read, an apply, what names a uid or resource version. The
  // answer to the second may be that the first has changed what it names (409, 404).
  kHarmless,
};

struct RetryOptions {
  // With the first.
  int max_attempts = 5;
  absl::Duration initial_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(10);
  // The budget: so many retries until calls succeed again, and how many of those pay for one more.
  // A server that is down gets little more than its load, not `max_attempts` times it.
  int max_retries_in_a_row = 10;
  int successes_per_retry = 10;
};

// Calls of one client share it. Which failure allows another attempt:
//
//   - nothing was sent (kNotSent): any call;
//   - 429 with Retry-After: any call, since it was not carried out; not before that time. Not that
//     of a disruption budget, which is an answer;
//   - 429 without, 5xx, a broken connection, no answer in time: if that is harmless;
//   - anything else: none.
//
// Waits grow exponentially with full jitter; on top of Retry-After comes up to half of it. None
// ends after the deadline. Pure; `random` must outlive it and belong to the same thread.
class RetryPolicy {
 public:
  RetryPolicy(RetryOptions options, Random* random)
      : options_(options), random_(random), budget_(FullBudget()) {}

  // `attempts` were made. When to make the next one; none: the failure stands.
  absl::optional<BootTime> OnFailure(const absl::Status& failure, Repeat repeat, int attempts,
                                     BootTime now, BootTime deadline);
  void OnSuccess();

 private:
  int FullBudget() const { return options_.max_retries_in_a_row * options_.successes_per_retry; }

  const RetryOptions options_;
  Random* const random_;
  // In successes.
  int budget_;
};

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CLIENT_RETRY_H_
