#include "services/scheduler/core/group_tree.h"

#include <algorithm>
#include <utility>

#include "absl/types/optional.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Topology;
using round::GangShape;
using round::Level;

absl::optional<Level> LevelOf(Topology::Level level) {
  switch (level) {
    case Topology::LEVEL_REGION:
      return Level::kRegion;
    case Topology::LEVEL_ZONE:
      return Level::kZone;
    case Topology::LEVEL_ROW:
      return Level::kRow;
    case Topology::LEVEL_RAIL:
      return Level::kRail;
    case Topology::LEVEL_RACK:
      return Level::kRack;
    case Topology::LEVEL_NVLINK_DOMAIN:
      return Level::kNvlinkDomain;
    case Topology::LEVEL_NODE:
      return Level::kHost;
    default:
      return absl::nullopt;
  }
}

// `preferred` only where it is deeper than what is required.
void SetLevels(const Topology& topology, absl::optional<Level> preferred, GangShape::Group* group) {
  group->required = LevelOf(topology.required());
  if (const auto asked = LevelOf(topology.preferred())) preferred = asked;
  if (preferred.has_value() && preferred > group->required) group->preferred = preferred;
}

}  // namespace

int FirstLeafOf(const GangRequest& gang) {
  const bool is_leaf_alone = gang.groups.size() == 1 && gang.sections.empty();
  return is_leaf_alone ? 0 : 1 + static_cast<int>(gang.sections.size());
}

GangShape TreeOf(const GangRequest& gang, const std::vector<int>& sizes,
                 absl::FunctionRef<round::ClassId(const GangRequest::Group& group)> class_of) {
  GangShape shape;
  shape.groups.emplace_back();
  SetLevels(gang.topology, Level::kNvlinkDomain, &shape.groups[0]);
  for (const GangRequest::Section& section : gang.sections) {
    GangShape::Group inner;
    inner.parent = section.parent + 1;
    SetLevels(section.topology, absl::nullopt, &inner);
    shape.groups.push_back(std::move(inner));
  }
  for (size_t g = 0; g < gang.groups.size(); ++g) {
    const GangRequest::Group& group = gang.groups[g];
    GangShape::Group leaf;
    leaf.parent = group.section + 1;
    SetLevels(group.topology, absl::nullopt, &leaf);
    leaf.task_class = class_of(group);
    leaf.min = leaf.max = sizes[g];
    for (const GangRequest::Slice& slice : group.slices) {
      if (const auto level = LevelOf(slice.level)) leaf.slices.push_back({*level, slice.size});
    }
    shape.groups.push_back(std::move(leaf));
  }
  if (FirstLeafOf(gang) == 0) {
    GangShape::Group& leaf = shape.groups[1];
    leaf.parent = -1;
    leaf.required = std::max(leaf.required, shape.groups[0].required);
    if (!leaf.preferred.has_value()) leaf.preferred = shape.groups[0].preferred;
    if (leaf.preferred <= leaf.required) leaf.preferred.reset();
    shape.groups.erase(shape.groups.begin());
  }
  return shape;
}

}  // namespace capstan::scheduler
