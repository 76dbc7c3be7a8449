#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_FLEET_FIXTURE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_FLEET_FIXTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "services/scheduler/core/round/fleet.h"

namespace capstan::scheduler::round {

// A fleet for tests: nodes with cores and one kind of accelerator.
class FleetFixture {
 public:
  FleetFixture();

  NodeTraits Traits(const std::string& cluster, const std::string& rack, const std::string& host,
                    int64_t cpu_millis, int64_t gpus) const;
  NodeIndex AddNode(const std::string& cluster, const std::string& rack, const std::string& host,
                    int64_t cpu_millis, int64_t gpus);
  ClassId Class(int64_t cpu_millis, int64_t gpus, const Constraints& constraints = {});
  // One group; all in one domain of the level.
  ShapeId Flat(ClassId task_class, int min, int max, absl::optional<Level> required = {},
               absl::optional<Level> preferred = {});
  // A root with a leaf for each group, whose parent is filled in.
  ShapeId Tree(std::vector<GangShape::Group> leaves, absl::optional<Level> required = {});
  GangIndex AddGang(ShapeId shape, int priority = 0, QueueId queue = 0,
                    absl::Duration declared = absl::InfiniteDuration());

  Fleet& fleet() { return fleet_; }
  Dimension gpu() const { return gpu_; }

 private:
  Fleet fleet_;
  Dimension gpu_ = 0;
  uint64_t next_key_ = 1;
};

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_FLEET_FIXTURE_H_
