#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_PLACEMENT_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_PLACEMENT_H_

#include "services/scheduler/core/placer.h"

namespace capstan::scheduler {

// Whether the Node may take Tasks of the gang, capacity aside.
bool Admits(const NodeCapacity& node, const GangRequest& gang);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_PLACEMENT_H_
