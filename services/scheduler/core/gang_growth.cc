#include "services/scheduler/core/gang_growth.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/types/optional.h"
#include "services/scheduler/core/gang_sizes.h"
#include "services/scheduler/core/group_tree.h"
#include "services/scheduler/core/round/gang_placer.h"
#include "services/scheduler/core/topology_levels.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Topology;
using round::GangShape;
using round::TaskRun;

// How many of `most` the queues let it have beside what it has got.
int MostAllowed(const Amounts& each, int most, const Amounts& got, MayHaveMore may_have) {
  int low = 0;
  for (int high = most; low < high;) {
    const int tried = low + (high - low + 1) / 2;
    Amounts all = got;
    all.Add(each, tried);
    if (may_have(all)) {
      low = tried;
    } else {
      high = tried - 1;
    }
  }
  return low;
}

// Levels in which more Tasks of the group are looked for beside those that it has: from what is
// preferred outwards to what is required.
std::vector<Topology::Level> LevelsOf(const GangRequest& gang, size_t group) {
  const Topology& own = gang.groups[group].topology;
  const Topology::Level all = gang.topology.preferred() == Topology::LEVEL_UNSPECIFIED
                                  ? Topology::LEVEL_NVLINK_DOMAIN
                                  : gang.topology.preferred();
  const int required = DepthOf(NarrowerOf(own.required(), gang.topology.required()));
  std::vector<Topology::Level> levels;
  for (int depth = DepthOf(NarrowerOf(own.preferred(), all)); depth > required; --depth) {
    levels.push_back(kLevelsByWidth[depth]);
  }
  levels.push_back(own.required());
  return levels;
}

}  // namespace

GangGrowth::GangGrowth(PlacingFleet* placing_fleet, round::Workspace* workspace, round::Plane plane,
                       const GangRequest& gang, const GangPlacement& has, round::ShapeId widest)
    : placing_fleet_(placing_fleet),
      workspace_(workspace),
      plane_(plane),
      gang_(gang),
      widest_(widest),
      most_(MostSizes(gang)),
      leaves_(LeavesOf(gang, most_)),
      sizes_(has.sizes) {
  size_t rank = 0;
  for (size_t g = 0; g < gang.groups.size(); ++g) {
    for (int i = 0; i < has.sizes[g]; ++i, ++rank) {
      runs_.push_back({static_cast<round::NodeIndex>(has.nodes[rank]), leaves_[g], 1});
    }
  }
  had_runs_ = static_cast<int>(runs_.size());
}

void GangGrowth::Run(MayHaveMore may_have) {
  for (const OptionalPart& part : gang_.parts) AddPart(part, may_have);
  for (size_t g = 0; g < gang_.groups.size(); ++g) GrowGroup(static_cast<int>(g), may_have);
}

void GangGrowth::Add(int group, TaskRun run) {
  run.group = leaves_[group];
  runs_.push_back(run);
  added_.push_back({group, static_cast<int>(run.node), run.count, placing_fleet_->SpotOf(run)});
  more_.Add(gang_.groups[group].each, run.count);
  sizes_[group] += run.count;
  count_ += run.count;
}

void GangGrowth::AddPart(const OptionalPart& part, MayHaveMore may_have) {
  if (!MayHavePart(gang_, part) || HasAnyOf(part, sizes_)) return;
  if (part.within >= 0 && !HasAnyOf(gang_.parts[part.within], sizes_)) return;
  std::vector<int> own(gang_.groups.size(), 0);
  Amounts all = more_;
  for (const int g : part.groups) {
    own[g] = gang_.groups[g].least_of_part;
    all.Add(gang_.groups[g].each, own[g]);
  }
  if (!may_have(all)) return;
  GangRequest alone = gang_;
  alone.topology.clear_required();
  for (int s = gang_.sections[part.section].parent; s >= 0; s = gang_.sections[s].parent) {
    alone.sections[s].topology.clear_required();
  }
  const absl::optional<round::ShapeId> id = placing_fleet_->ShapeOf(alone, own);
  if (!id.has_value()) return;
  const round::Fleet& fleet = placing_fleet_->fleet();
  round::GangPlacer placer(workspace_, 0);
  const round::Range around =
      placer.DomainFor(fleet.shape(widest_), leaves_[part.groups.front()], runs_);
  const auto runs = placer.PlaceIn(fleet.shape(*id), around, plane_);
  if (!runs.has_value()) return;
  const std::vector<int> leaves = LeavesOf(alone, own);
  for (const TaskRun& run : *runs) {
    const auto group = std::find(leaves.begin(), leaves.end(), run.group) - leaves.begin();
    Add(static_cast<int>(group), run);
  }
}

void GangGrowth::GrowGroup(int group, MayHaveMore may_have) {
  const GangRequest::Group& grown = gang_.groups[group];
  const bool is_without =
      std::any_of(gang_.parts.begin(), gang_.parts.end(), [&](const OptionalPart& part) {
        return !HasAnyOf(part, sizes_) &&
               std::find(part.groups.begin(), part.groups.end(), group) != part.groups.end();
      });
  if (is_without) return;
  int wanted = MostAllowed(grown.each, most_[group] - sizes_[group], more_, may_have);
  wanted -= wanted % grown.step();
  for (const Topology::Level level : LevelsOf(gang_, static_cast<size_t>(group))) {
    if (wanted == 0) return;
    GangRequest narrowed = gang_;
    narrowed.groups[group].topology.set_required(level);
    const absl::optional<round::ShapeId> id = placing_fleet_->ShapeOf(narrowed, most_);
    if (!id.has_value()) return;
    const GangShape& shape = placing_fleet_->fleet().shape(*id);
    std::vector<int64_t> limit(shape.groups.size(), 0);
    limit[leaves_[group]] = wanted;
    round::GangPlacer placer(workspace_, 0);
    for (const TaskRun& run : placer.Grow(shape, runs_, plane_, limit)) {
      Add(group, run);
      wanted -= run.count;
    }
  }
}

}  // namespace capstan::scheduler
