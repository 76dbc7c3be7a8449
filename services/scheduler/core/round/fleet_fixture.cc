#include "services/scheduler/core/round/fleet_fixture.h"

#include <utility>

namespace capstan::scheduler::round {

FleetFixture::FleetFixture() : gpu_(fleet_.dimensions().Intern("nvidia.com/gpu").value()) {}

NodeTraits FleetFixture::Traits(const std::string& cluster, const std::string& rack,
                                const std::string& host, int64_t cpu_millis, int64_t gpus) const {
  NodeTraits traits;
  traits.path[static_cast<int>(Level::kCluster)] = cluster;
  traits.path[static_cast<int>(Level::kRack)] = rack;
  traits.path[static_cast<int>(Level::kHost)] = host;
  traits.allocatable[kCpuMillis] = cpu_millis;
  traits.allocatable[gpu_] = gpus;
  return traits;
}

NodeIndex FleetFixture::AddNode(const std::string& cluster, const std::string& rack,
                                const std::string& host, int64_t cpu_millis, int64_t gpus) {
  return fleet_.AddNode(Traits(cluster, rack, host, cpu_millis, gpus));
}

ClassId FleetFixture::Class(int64_t cpu_millis, int64_t gpus, const Constraints& constraints) {
  return fleet_.InternClass(constraints, {{kCpuMillis, cpu_millis}, {gpu_, gpus}});
}

ShapeId FleetFixture::Flat(ClassId task_class, int min, int max, absl::optional<Level> required,
                           absl::optional<Level> preferred) {
  GangShape shape;
  GangShape::Group group;
  group.required = required;
  group.preferred = preferred;
  group.task_class = task_class;
  group.min = min;
  group.max = max;
  shape.groups.push_back(group);
  return fleet_.InternShape(std::move(shape)).value();
}

ShapeId FleetFixture::Tree(std::vector<GangShape::Group> leaves, absl::optional<Level> required) {
  GangShape shape;
  shape.groups.emplace_back();
  shape.groups[0].required = required;
  for (GangShape::Group& leaf : leaves) {
    leaf.parent = 0;
    shape.groups.push_back(leaf);
  }
  return fleet_.InternShape(std::move(shape)).value();
}

GangIndex FleetFixture::AddGang(ShapeId shape, int priority, QueueId queue,
                                absl::Duration declared) {
  Gang gang;
  gang.key = next_key_++;
  gang.shape = shape;
  gang.priority = priority;
  gang.queue = queue;
  gang.declared = declared;
  return fleet_.AddGang(gang);
}

}  // namespace capstan::scheduler::round
