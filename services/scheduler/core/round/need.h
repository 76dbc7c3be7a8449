#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_NEED_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_NEED_H_

#include <cstdint>

namespace capstan::scheduler::round {

// Why a gang has to go so that another one starts: what keeps that one from it if, of all that are
// to go, this gang alone stays. Whoever knows Nodes and queues can check it.
struct Need {
  enum class Kind {
    // Of the Tasks that it needs at least, only `tasks` have room in the domain where most have.
    kRoom,
    // There is room, but its queues do not let it start.
    kQueues,
    // No place was found for it, and no sum says whether there is one.
    kPlace,
  };
  Kind kind = Kind::kPlace;
  // Where there are slices, those in whole ones.
  int64_t tasks = 0;

  friend bool operator==(const Need&, const Need&) = default;
};

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_NEED_H_
