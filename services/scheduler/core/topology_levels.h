// The levels of a topology by width. Their numbers say nothing of it: they are compared here alone.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_TOPOLOGY_LEVELS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_TOPOLOGY_LEVELS_H_

#include <array>
#include <cstddef>

#include "proto/capstan/scheduler/v1/job.pb.h"

namespace capstan::scheduler {

// From the widest on, the Cluster first: each lies within those before it.
inline constexpr std::array kLevelsByWidth = {
    capstan::scheduler::v1::Topology::LEVEL_UNSPECIFIED,
    capstan::scheduler::v1::Topology::LEVEL_REGION,
    capstan::scheduler::v1::Topology::LEVEL_ZONE,
    capstan::scheduler::v1::Topology::LEVEL_ROW,
    capstan::scheduler::v1::Topology::LEVEL_RAIL,
    capstan::scheduler::v1::Topology::LEVEL_RACK,
    capstan::scheduler::v1::Topology::LEVEL_NVLINK_DOMAIN,
    capstan::scheduler::v1::Topology::LEVEL_NODE,
};
static_assert(kLevelsByWidth.size() == capstan::scheduler::v1::Topology::Level_ARRAYSIZE);

// Position in kLevelsByWidth: 0 of the Cluster, and of what is no level.
constexpr int DepthOf(capstan::scheduler::v1::Topology::Level level) {
  for (size_t depth = 0; depth < kLevelsByWidth.size(); ++depth) {
    if (kLevelsByWidth[depth] == level) return static_cast<int>(depth);
  }
  return 0;
}

constexpr bool IsNarrower(capstan::scheduler::v1::Topology::Level level,
                          capstan::scheduler::v1::Topology::Level than) {
  return DepthOf(level) > DepthOf(than);
}

constexpr capstan::scheduler::v1::Topology::Level NarrowerOf(
    capstan::scheduler::v1::Topology::Level a, capstan::scheduler::v1::Topology::Level b) {
  return IsNarrower(b, a) ? b : a;
}

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_TOPOLOGY_LEVELS_H_
