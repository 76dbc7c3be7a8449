// What would have to come free so that a gang fits.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_FREEING_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_FREEING_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/optional.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

struct Freeing {
  struct Part {
    const NodeCapacity* node = nullptr;
    Amounts amounts;
  };
  // In the order of Nodes; each of something.
  std::vector<Part> parts;
  // In thousandths of what a Task asks, summed over its resources.
  int64_t cost = 0;
};

struct FreeingSearch {
  // Of the domains that were looked at, what is least; with that much free the gang fits, and with
  // any less of it it does not. Of gangs with several groups the latter is tried a bounded number
  // of times. Absent if there is none, or the gang is too large to look or asks for MIG instances.
  absl::optional<Freeing> least;
  // Domains in which the gang would fit if they were empty, those first that lack least.
  std::vector<const std::vector<const NodeCapacity*>*> nearest;
};

// Nodes that the gang may be on, by the domain that all of it must be in; it fits into none now.
// `whole`: what a Node would have free if nothing ran there. Looks at 64 domains: where there are
// more, those that lack least in sum. O((Nodes + Tasks) · log) for these, for gangs of one group.
FreeingSearch FindFreeing(const GangRequest& gang,
                          const std::map<std::string, std::vector<const NodeCapacity*>>& domains,
                          absl::FunctionRef<const Amounts&(const NodeCapacity& node)> whole);

// What a Task that asks for `each` lacks on a Node with so much free, as Freeing::cost counts.
int64_t LackOf(const Amounts& each, const Amounts& free);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_FREEING_H_
