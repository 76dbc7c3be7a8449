#include "services/scheduler/core/round/reasons.h"

#include <algorithm>
#include <map>
#include <utility>

#include "services/scheduler/core/round/gang_placer.h"
#include "services/scheduler/core/round/slices.h"

namespace capstan::scheduler::round {
namespace {

struct Shortage {
  ClassId id = 0;
  int64_t wanted = 0;
  int64_t best = 0;
  absl::optional<NodeIndex> nearest;
};

// Tasks of the class that the nodes of a range would hold if nothing ran, cordoned ones included.
int64_t FitWhenEmpty(Workspace& workspace, ClassId id, Range range) {
  const TaskClass& task_class = workspace.task_class(id);
  const Standings& standings = workspace.StandingsUnder(task_class.constraints);
  int64_t total = 0;
  for (int p = range.first; p < range.last; ++p) {
    if (standings[p] == Standing::kSelector || standings[p] == Standing::kTaint) continue;
    int64_t fit = ClassIndex::kMaxFit;
    for (const Quantity& quantity : task_class.request) {
      const int64_t has = workspace.rows().traits(p).allocatable[quantity.dimension];
      fit = std::min(fit, has / quantity.amount);
    }
    total += fit;
  }
  return total;
}

// The class of the group, or with `in_slices` the kind of its slices, of which each domain of the
// level holds too few, if any.
template <typename FitIn>
absl::optional<Shortage> FindShortage(Workspace& workspace, const GangShape& shape, int group,
                                      Level level, bool in_slices, FitIn fit_in) {
  const auto& needs = in_slices ? shape.sliced[group] : shape.needs[group];
  for (const GangShape::Need& need : needs) {
    const ClassId id = need.task_class;
    absl::Span<const Slice> slices;
    if (in_slices) slices = shape.slices_of(need);
    Shortage shortage{id, need.count, -1, absl::nullopt};
    for (const Range& domain : workspace.rows().domains(level)) {
      const int64_t fit = FitInSlices(workspace.rows(), slices, domain,
                                      [&fit_in, id](Range part) { return fit_in(id, part); });
      if (fit <= shortage.best) continue;
      shortage.best = fit;
      shortage.nearest = workspace.rows().node(domain.first);
      if (fit >= need.count) break;
    }
    shortage.best = std::max<int64_t>(shortage.best, 0);
    if (shortage.best < need.count) return shortage;
  }
  return absl::nullopt;
}

// The same, of slices only where all else is enough.
template <typename FitIn>
absl::optional<Shortage> FindShortage(Workspace& workspace, const GangShape& shape, int group,
                                      Level level, FitIn fit_in) {
  const auto shortage = FindShortage(workspace, shape, group, level, false, fit_in);
  return shortage.has_value() ? shortage
                              : FindShortage(workspace, shape, group, level, true, fit_in);
}

void CountNodes(Workspace& workspace, ClassId id, Plane plane, Reason& reason) {
  const NodeRows& rows = workspace.rows();
  const TaskClass& task_class = workspace.task_class(id);
  const Standings& standings = workspace.StandingsUnder(task_class.constraints);
  const ClassIndex& index = workspace.Index(id, plane);
  std::map<std::pair<NodeObstacle, Dimension>, int64_t> counts;
  for (int p = 0; p < rows.size(); ++p) {
    if (index.fit(p) > 0) {
      ++reason.nodes_with_room;
      continue;
    }
    std::pair<NodeObstacle, Dimension> why = {NodeObstacle::kResource, 0};
    switch (standings[p]) {
      case Standing::kSelector:
        why.first = NodeObstacle::kSelector;
        break;
      case Standing::kTaint:
        why.first = NodeObstacle::kTaint;
        break;
      case Standing::kUnschedulable:
        why.first = NodeObstacle::kUnschedulable;
        break;
      case Standing::kAdmitted: {
        const auto lacking = std::find_if(
            task_class.request.begin(), task_class.request.end(),
            [&](const Quantity& q) { return rows.available(p, q.dimension, plane) < q.amount; });
        if (lacking != task_class.request.end()) why.second = lacking->dimension;
        break;
      }
    }
    ++counts[why];
  }
  for (const auto& [why, nodes] : counts) reason.nodes.push_back({why.first, why.second, nodes});
}

}  // namespace

Reason WhyNot(Workspace& workspace, const GangShape& shape, Plane plane) {
  Reason reason;
  const auto free_fit = [&workspace, plane](ClassId id, Range domain) {
    return workspace.Index(id, plane).TotalIn(domain);
  };
  const auto empty_fit = [&workspace](ClassId id, Range domain) {
    return FitWhenEmpty(workspace, id, domain);
  };
  for (int group = 0; group < static_cast<int>(shape.groups.size()); ++group) {
    const Level level = shape.groups[group].required.value_or(Level::kCluster);
    const auto shortage = FindShortage(workspace, shape, group, level, free_fit);
    if (!shortage.has_value()) continue;
    reason.group = group;
    reason.level = level;
    reason.wanted = shortage->wanted;
    reason.best = shortage->best;
    reason.nearest = shortage->nearest;
    if (FindShortage(workspace, shape, group, level, empty_fit).has_value()) {
      reason.obstacle = Obstacle::kNeverFits;
    } else if (FindShortage(workspace, shape, group, Level::kCluster, false, free_fit)
                   .has_value()) {
      reason.obstacle = Obstacle::kRoom;
    } else {
      reason.obstacle = Obstacle::kTopology;
    }
    CountNodes(workspace, shortage->id, plane, reason);
    break;
  }
  if (reason.obstacle == Obstacle::kNotTried) {
    reason.obstacle = Obstacle::kPacking;
    reason.level = shape.groups[0].required;
    reason.wanted = shape.min_tasks;
    CountNodes(workspace, shape.groups[shape.leaves[0].front()].task_class, plane, reason);
  }
  if (plane == Plane::kBeyondReservation) {
    const size_t mark = workspace.Mark();
    if (GangPlacer(&workspace, 0).Place(shape, Plane::kNow).has_value()) {
      workspace.UndoTo(mark);
      reason.obstacle = Obstacle::kReservation;
    }
  }
  return reason;
}

}  // namespace capstan::scheduler::round
