#ifndef CAPSTAN_LIBS_MIG_PLAN_JUDGE_H_
#define CAPSTAN_LIBS_MIG_PLAN_JUDGE_H_

#include <string>

#include "libs/mig/repartition.h"
#include "libs/mig/state_table.h"

namespace capstan::mig {

// Carries a plan out, act by act, and says the first thing that is wrong with it: an act on a GPU
// that is not cordoned, an instance destroyed in use or made where it can't stand, a gang that must
// not be stopped, one that starts in part or on another's instance, a wanted instance that is
// missing, a cost that is not that of the acts. Empty if all is well. Shares nothing with what
// makes plans but the table of states.
std::string WhatIsWrong(const StateTable& table, const RepartitionRequest& request,
                        const RepartitionPlan& plan);

}  // namespace capstan::mig

#endif  // CAPSTAN_LIBS_MIG_PLAN_JUDGE_H_
