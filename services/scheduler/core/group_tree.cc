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

bool IsLeafAlone(const GangRequest& gang) {
  return gang.groups.size() == 1 && gang.sections.empty();
}

// By section, its position in the tree; -1 of one without Tasks.
std::vector<int> InnerOf(const GangRequest& gang, const std::vector<int>& sizes) {
  std::vector<int> at(gang.sections.size(), -1);
  for (size_t g = 0; g < gang.groups.size(); ++g) {
    if (sizes[g] == 0) continue;
    for (int s = gang.groups[g].section; s >= 0; s = gang.sections[s].parent) at[s] = 0;
  }
  int next = 1;
  for (int& position : at) {
    if (position == 0) position = next++;
  }
  return at;
}

}  // namespace

std::vector<int> LeavesOf(const GangRequest& gang, const std::vector<int>& sizes) {
  std::vector<int> leaves(gang.groups.size(), -1);
  int next = 0;
  if (!IsLeafAlone(gang)) {
    const std::vector<int> inner = InnerOf(gang, sizes);
    next = 1 + static_cast<int>(std::count_if(inner.begin(), inner.end(),
                                              [](int position) { return position > 0; }));
  }
  for (size_t g = 0; g < leaves.size(); ++g) {
    if (sizes[g] > 0) leaves[g] = next++;
  }
  return leaves;
}

GangShape TreeOf(const GangRequest& gang, const std::vector<int>& sizes,
                 absl::FunctionRef<round::ClassId(const GangRequest::Group& group)> class_of) {
  GangShape shape;
  shape.groups.emplace_back();
  SetLevels(gang.topology, Level::kNvlinkDomain, &shape.groups[0]);
  const std::vector<int> at = InnerOf(gang, sizes);
  const auto position_of = [&at](int section) { return section < 0 ? 0 : at[section]; };
  for (size_t s = 0; s < gang.sections.size(); ++s) {
    if (at[s] < 0) continue;
    GangShape::Group inner;
    inner.parent = position_of(gang.sections[s].parent);
    SetLevels(gang.sections[s].topology, absl::nullopt, &inner);
    shape.groups.push_back(std::move(inner));
  }
  for (size_t g = 0; g < gang.groups.size(); ++g) {
    if (sizes[g] == 0) continue;
    const GangRequest::Group& group = gang.groups[g];
    GangShape::Group leaf;
    leaf.parent = position_of(group.section);
    SetLevels(group.topology, absl::nullopt, &leaf);
    leaf.task_class = class_of(group);
    leaf.min = leaf.max = sizes[g];
    for (const GangRequest::Slice& slice : group.slices) {
      if (const auto level = LevelOf(slice.level)) leaf.slices.push_back({*level, slice.size});
    }
    shape.groups.push_back(std::move(leaf));
  }
  if (IsLeafAlone(gang)) {
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
