#include "tools/capstan/cli/call.h"

#include "absl/time/clock.h"
#include "libs/rpc/backoff.h"

namespace capstan::cli {

struct AttemptPause::State {
  explicit State(const CallTerms& terms)
      : clock(terms.clock),
        deadline(terms.clock->Read().boot + terms.time_out),
        backoff(terms.random, {.initial = absl::Milliseconds(100), .max = absl::Seconds(1)}) {}

  const Clock* const clock;
  const BootTime deadline;
  rpc::Backoff backoff;
};

AttemptPause::AttemptPause(const CallTerms& terms) : state_(std::make_unique<State>(terms)) {}
AttemptPause::~AttemptPause() = default;

absl::Duration AttemptPause::left() const { return state_->deadline - state_->clock->Read().boot; }

bool AttemptPause::Wait() {
  const absl::Duration pause = state_->backoff.Next();
  if (left() < 2 * pause) return false;
  absl::SleepFor(pause);
  return true;
}

}  // namespace capstan::cli
