#ifndef CAPSTAN_SERVICES_SCHEDULER_CPU_BUDGET_H_
#define CAPSTAN_SERVICES_SCHEDULER_CPU_BUDGET_H_

#include "absl/time/time.h"
#include "libs/time/clock.h"

namespace capstan::scheduler {

// Keeps work that comes in pieces to a share of one core: a bucket of processor time that fills at
// that share of the time that passes, holds nothing beyond what is owed, and must be even before a
// piece begins. So over any span of time the pieces take at most the share of it, and what one of
// them takes. A value; pure.
class CpuBudget {
 public:
  // `percent` of one core, 1 to 100.
  explicit CpuBudget(int percent) : percent_(percent) {}

  // When the next piece may begin.
  BootTime free_at() const { return free_at_; }
  // A piece that began at `begun`, not before that, has taken so much. One at a time.
  void Took(BootTime begun, absl::Duration cpu) { free_at_ = begun + cpu * 100 / percent_; }

 private:
  const int percent_;
  BootTime free_at_ = BootTime::InfinitePast();
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CPU_BUDGET_H_
