#include "services/scheduler/core/round/gang_placer.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <tuple>
#include <utility>

#include "services/scheduler/core/round/slices.h"

namespace capstan::scheduler::round {
namespace {

int LevelOf(const absl::optional<Level>& level) {
  return level.has_value() ? static_cast<int>(*level) : -1;
}

// Scarce dimensions come last in a request: accelerators weigh more than cores.
bool Larger(const Request& a, const Request& b) {
  return std::lexicographical_compare(b.rbegin(), b.rend(), a.rbegin(), a.rend());
}

}  // namespace

absl::optional<std::vector<TaskRun>> GangPlacer::Place(const GangShape& shape, Plane plane) {
  return PlaceInOrders(shape, plane, absl::nullopt);
}

absl::optional<std::vector<TaskRun>> GangPlacer::PlaceIn(const GangShape& shape, Range domain,
                                                         Plane plane) {
  return PlaceInOrders(shape, plane, domain);
}

absl::optional<std::vector<TaskRun>> GangPlacer::PlaceInOrders(const GangShape& shape, Plane plane,
                                                               absl::optional<Range> domain) {
  shape_ = &shape;
  plane_ = plane;
  trials_ = 0;
  taken_.clear();
  if (!MayFit(shape, 0, domain.value_or(Everything()), plane)) return absl::nullopt;
  const Mark start = Here();
  const int orders = OrdersFor(shape);
  for (int order = 0; order < orders; ++order) {
    order_ = static_cast<Order>(order);
    const bool placed = domain.has_value() ? PlaceInPreferred(0, *domain) || PlaceWithin(0, *domain)
                                           : PlaceGroup(0, Everything());
    if (placed) return TakeRuns();
    UndoTo(start);
  }
  return absl::nullopt;
}

std::vector<TaskRun> GangPlacer::TakeRuns() {
  const auto by_group = [](const Taken& a, const Taken& b) { return a.group < b.group; };
  if (!std::is_sorted(taken_.begin(), taken_.end(), by_group)) {
    std::stable_sort(taken_.begin(), taken_.end(), by_group);
  }
  std::vector<TaskRun> runs;
  runs.reserve(taken_.size());
  for (const Taken& taken : taken_) {
    runs.push_back(
        {workspace_->rows().node(taken.position), taken.group, taken.count, taken.instance});
  }
  taken_.clear();
  return runs;
}

bool GangPlacer::MayFit(const GangShape& shape, int group, Range range, Plane plane) {
  for (const GangShape::Need& need : shape.needs[group]) {
    if (workspace_->Index(need.task_class, plane).TotalIn(range) < need.count) return false;
  }
  return MayFitInSlices(shape, group, range, plane);
}

bool GangPlacer::MayFitInSlices(const GangShape& shape, int group, Range range, Plane plane) {
  return std::all_of(
      shape.sliced[group].begin(), shape.sliced[group].end(), [&](const GangShape::Need& need) {
        const ClassIndex& index = workspace_->Index(need.task_class, plane);
        const auto total_in = [&index](Range part) { return index.TotalIn(part); };
        return round::FitInSlices(workspace_->rows(), shape.slices_of(need), range, total_in) >=
               need.count;
      });
}

GangPlacer::Candidates GangPlacer::CandidatesFor(int group, Level level, Range range) {
  const NodeRows& rows = workspace_->rows();
  const std::vector<GangShape::Need>& needs = shape_->needs[group];
  const int origin = Origin(range);
  std::vector<const std::vector<int64_t>*> totals;
  for (const GangShape::Need& need : needs) {
    totals.push_back(&workspace_->Index(need.task_class, plane_).TotalsOf(level));
  }
  const bool any_sliced = !shape_->sliced[group].empty();
  Candidates candidates;
  const std::vector<Range>& domains = rows.domains(level);
  auto domain = std::lower_bound(domains.begin(), domains.end(), range.first,
                                 [](const Range& d, int first) { return d.first < first; });
  for (; domain != domains.end() && domain->last <= range.last; ++domain) {
    const ptrdiff_t at = domain - domains.begin();
    int64_t leftover = 0;
    for (size_t n = 0; n < needs.size() && leftover >= 0; ++n) {
      const int64_t spare = (*totals[n])[at] - needs[n].count;
      leftover = spare < 0 ? -1 : leftover + spare;
    }
    if (leftover < 0) continue;
    if (any_sliced && !MayFitInSlices(*shape_, group, *domain, plane_)) continue;
    candidates.Add(leftover, domain->first < origin, *domain);
  }
  return candidates;
}

bool GangPlacer::PlaceGroup(int group, Range range) {
  if (PlaceInPreferred(group, range)) return true;
  const absl::optional<Level>& required = shape_->groups[group].required;
  return required.has_value() ? PlaceInOneOf(group, *required, range) : PlaceWithin(group, range);
}

bool GangPlacer::PlaceInPreferred(int group, Range range) {
  const GangShape::Group& g = shape_->groups[group];
  const int widest = std::max(LevelOf(g.required), 0);
  const Mark mark = Here();
  for (int level = LevelOf(g.preferred); level > widest; --level) {
    Candidates candidates = CandidatesFor(group, static_cast<Level>(level), range);
    while (const absl::optional<Range> domain = candidates.Next()) {
      if (trials_ >= kMaxTrials / 2) return false;
      // Nodes that say nothing of the level that is required are in no domain of it.
      if (workspace_->rows().domain_of(static_cast<Level>(widest), domain->first) < 0) continue;
      ++trials_;
      if (PlaceWithin(group, *domain)) return true;
      UndoTo(mark);
    }
  }
  return false;
}

bool GangPlacer::PlaceInOneOf(int group, Level level, Range range) {
  const Mark mark = Here();
  Candidates candidates = CandidatesFor(group, level, range);
  while (const absl::optional<Range> domain = candidates.Next()) {
    if (++trials_ > kMaxTrials) return false;
    if (PlaceWithin(group, *domain)) return true;
    UndoTo(mark);
  }
  return false;
}

bool GangPlacer::PlaceWithin(int group, Range range) {
  const GangShape::Group& g = shape_->groups[group];
  if (shape_->is_leaf(group)) {
    return PlaceLeaf(group, range, StepsOf(group, LevelOf(g.preferred) > LevelOf(g.required)));
  }
  const std::vector<int> children = ChildrenInOrder(group);
  return std::all_of(children.begin(), children.end(),
                     [&](int child) { return PlaceGroup(child, range); });
}

bool GangPlacer::PlaceLeaf(int leaf, Range range, absl::Span<const Step> steps) {
  const int64_t count = shape_->groups[leaf].min;
  return FillBySteps(leaf, steps, range, count) == count;
}

std::vector<GangPlacer::Step> GangPlacer::StepsOf(int leaf, bool preferred) const {
  const GangShape::Group& group = shape_->groups[leaf];
  std::vector<Step> steps;
  // What is preferred needs saying where no slice says it.
  const auto prefer = [&](absl::optional<Level> before) {
    if (!preferred || (before.has_value() && *group.preferred >= *before)) return;
    steps.push_back({*group.preferred, 0, steps.size()});
    preferred = false;
  };
  for (const Slice& slice : group.slices) {
    prefer(slice.level);
    const size_t inner = static_cast<size_t>(&slice - group.slices.data()) + 1;
    steps.push_back({slice.level, slice.size, inner});
    if (preferred && *group.preferred == slice.level) preferred = false;
  }
  prefer(absl::nullopt);
  return steps;
}

int64_t GangPlacer::FitInSlices(int leaf, size_t slice, Range range) {
  const GangShape::Group& group = shape_->groups[leaf];
  const ClassIndex& index = workspace_->Index(group.task_class, plane_);
  return round::FitInSlices(workspace_->rows(), absl::MakeSpan(group.slices).subspan(slice), range,
                            [&index](Range part) { return index.TotalIn(part); });
}

int64_t GangPlacer::Fill(int leaf, Range range, int64_t count) {
  const ClassId id = shape_->groups[leaf].task_class;
  const int origin = Origin(range);
  int64_t left = count;
  // The node of the rank before is filled up first, so that consecutive ranks share it.
  if (left > 0 && !taken_.empty()) {
    const int open = taken_.back().position;
    if (open >= range.first && open < range.last) {
      const int64_t take = std::min<int64_t>(left, workspace_->Index(id, plane_).fit(open));
      if (take > 0) TakeRun(leaf, open, take);
      left -= take;
    }
  }
  while (left > 0) {
    const ClassIndex& index = workspace_->Index(id, plane_);
    int position = index.Tightest(range, left, origin);
    if (position < 0) position = index.Roomiest(range, origin);
    if (position < 0) break;
    const int64_t take = std::min<int64_t>(left, index.fit(position));
    TakeRun(leaf, position, take);
    left -= take;
  }
  return count - left;
}

int64_t GangPlacer::FillBySteps(int leaf, absl::Span<const Step> steps, Range range,
                                int64_t count) {
  if (steps.empty()) return Fill(leaf, range, count);
  const Step& step = steps.front();
  struct Open {
    int64_t holds;
    // Beyond whole slices.
    int64_t over;
    Range domain;
  };
  std::vector<Open> open;
  VisitDomains(workspace_->rows(), step.level, range, [&](Range domain) {
    const int64_t fit = FitInSlices(leaf, step.inner, domain);
    const int64_t over = step.size > 0 ? fit % step.size : 0;
    if (fit > over) open.push_back({fit - over, over, domain});
  });
  // The tightest that holds the rest, else the roomiest: of equal ones the last here.
  std::sort(open.begin(), open.end(), [](const Open& a, const Open& b) {
    return std::tie(a.holds, b.over, b.domain.first) < std::tie(b.holds, a.over, a.domain.first);
  });
  int64_t left = count;
  while (left > 0 && !open.empty()) {
    const auto holds_more = [](int64_t holds, const Open& o) { return holds < o.holds; };
    auto best = std::upper_bound(open.begin(), open.end(), left - 1, holds_more);
    if (best == open.end()) {
      --best;
    } else {
      best = std::prev(std::upper_bound(best, open.end(), best->holds, holds_more));
    }
    left -= FillBySteps(leaf, steps.subspan(1), best->domain, std::min(left, best->holds));
    open.erase(best);
  }
  // What is in no domain of a level that is only preferred does as well.
  if (left > 0 && step.size == 0) left -= FillBySteps(leaf, steps.subspan(1), range, left);
  return count - left;
}

void GangPlacer::TakeRun(int leaf, int position, int64_t count) {
  const ClassId id = shape_->groups[leaf].task_class;
  if (workspace_->task_class(id).ask.has_value()) {
    for (int64_t i = 0; i < count; ++i) {
      taken_.push_back({position, leaf, 1, workspace_->TakeInstance(position, id, plane_)});
    }
    return;
  }
  workspace_->Take(position, id, count, plane_);
  taken_.push_back({position, leaf, static_cast<int>(count), {}});
}

void GangPlacer::UndoTo(Mark mark) {
  workspace_->UndoTo(mark.journal);
  taken_.resize(mark.taken);
}

int GangPlacer::OrdersFor(const GangShape& shape) const {
  const std::vector<int>& leaves = shape.leaves[0];
  if (leaves.size() == 1) return 1;
  const auto constraints_of = [&](int leaf) {
    return workspace_->task_class(shape.groups[leaf].task_class).constraints;
  };
  const bool is_alike = std::all_of(leaves.begin(), leaves.end(), [&](int leaf) {
    return constraints_of(leaf) == constraints_of(leaves[0]);
  });
  return is_alike ? 2 : 3;
}

std::vector<int> GangPlacer::ChildrenInOrder(int group) const {
  std::vector<int> children = shape_->children[group];
  if (order_ == Order::kRank) return children;
  if (order_ == Order::kScarcest) {
    // Of each the tasks that least room is for, whatever others take of it.
    std::vector<int64_t> room(shape_->groups.size());
    for (int child : children) {
      room[child] = std::numeric_limits<int64_t>::max();
      for (int leaf : shape_->leaves[child]) {
        const ClassId id = shape_->groups[leaf].task_class;
        room[child] = std::min(room[child], workspace_->Index(id, plane_).total());
      }
    }
    std::stable_sort(children.begin(), children.end(),
                     [&room](int a, int b) { return room[a] < room[b]; });
    return children;
  }
  std::vector<Request> largest(shape_->groups.size());
  for (int child : children) {
    for (int leaf : shape_->leaves[child]) {
      const Request& request = workspace_->task_class(shape_->groups[leaf].task_class).request;
      if (Larger(request, largest[child])) largest[child] = request;
    }
  }
  std::stable_sort(children.begin(), children.end(),
                   [&largest](int a, int b) { return Larger(largest[a], largest[b]); });
  return children;
}

Range GangPlacer::DomainFor(const GangShape& shape, int leaf,
                            absl::Span<const TaskRun> runs) const {
  const NodeRows& rows = workspace_->rows();
  Range domain = Everything();
  for (int group = leaf; group >= 0; group = shape.groups[group].parent) {
    const absl::optional<Level>& required = shape.groups[group].required;
    if (!required.has_value()) continue;
    for (int below : shape.leaves[group]) {
      const auto run = std::find_if(runs.begin(), runs.end(),
                                    [below](const TaskRun& r) { return r.group == below; });
      if (run == runs.end()) continue;
      const int position = rows.position(run->node);
      const int index = position < 0 ? -1 : rows.domain_of(*required, position);
      if (index < 0) return {0, 0};
      const Range found = rows.domains(*required)[index];
      if (found.size() < domain.size()) domain = found;
      break;
    }
  }
  return domain;
}

std::vector<TaskRun> GangPlacer::Grow(const GangShape& shape, absl::Span<const TaskRun> runs,
                                      Plane plane, absl::Span<const int64_t> limit) {
  shape_ = &shape;
  plane_ = plane;
  taken_.clear();
  std::vector<TaskRun> all(runs.begin(), runs.end());
  std::vector<TaskRun> more;
  for (int leaf : shape.leaves[0]) {
    int64_t has = 0;
    for (const TaskRun& run : all) has += run.group == leaf ? run.count : 0;
    int64_t room = std::min<int64_t>(shape.groups[leaf].max - has, limit[leaf]);
    if (!shape.groups[leaf].slices.empty()) room -= room % shape.groups[leaf].slices[0].size;
    if (room <= 0) continue;
    FillBySteps(leaf, StepsOf(leaf, false), DomainFor(shape, leaf, all), room);
    for (const TaskRun& run : TakeRuns()) {
      more.push_back(run);
      all.push_back(run);
    }
  }
  return more;
}

int GangPlacer::Origin(Range range) const {
  if (seed_ == 0 || range.size() == 0) return range.first;
  // SplitMix64's finaliser: neighbouring seeds give unrelated places.
  uint64_t z = seed_ + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return range.first + static_cast<int>((z ^ (z >> 31)) % static_cast<uint64_t>(range.size()));
}

}  // namespace capstan::scheduler::round
