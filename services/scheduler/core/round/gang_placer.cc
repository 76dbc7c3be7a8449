#include "services/scheduler/core/round/gang_placer.h"

#include <algorithm>
#include <tuple>
#include <utility>

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
  const int orders = shape.leaves[0].size() > 1 ? 2 : 1;
  for (int order = 0; order < orders; ++order) {
    largest_first_ = order == 1;
    const bool placed = domain.has_value() ? PlaceWithin(0, *domain) : PlaceGroup(0, Everything());
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
    runs.push_back({workspace_->rows().node(taken.position), taken.group, taken.count});
  }
  taken_.clear();
  return runs;
}

bool GangPlacer::MayFit(const GangShape& shape, int group, Range range, Plane plane) {
  for (const GangShape::Need& need : shape.needs[group]) {
    if (workspace_->Index(need.task_class, plane).TotalIn(range) < need.count) return false;
  }
  return true;
}

std::vector<Range> GangPlacer::Candidates(int group, Level level, Range range) {
  const NodeRows& rows = workspace_->rows();
  const std::vector<GangShape::Need>& needs = shape_->needs[group];
  std::vector<std::pair<int64_t, Range>> found;
  const std::vector<Range>& domains = rows.domains(level);
  auto domain = std::lower_bound(domains.begin(), domains.end(), range.first,
                                 [](const Range& d, int first) { return d.first < first; });
  for (; domain != domains.end() && domain->last <= range.last; ++domain) {
    int64_t leftover = 0;
    for (const GangShape::Need& need : needs) {
      const int64_t spare =
          workspace_->Index(need.task_class, plane_).TotalIn(*domain) - need.count;
      if (spare < 0) {
        leftover = -1;
        break;
      }
      leftover += spare;
    }
    if (leftover >= 0) found.emplace_back(leftover, *domain);
  }
  const int origin = Origin(range);
  std::sort(found.begin(), found.end(), [origin](const auto& a, const auto& b) {
    const bool a_before = a.second.first < origin;
    const bool b_before = b.second.first < origin;
    return std::tie(a.first, a_before, a.second.first) <
           std::tie(b.first, b_before, b.second.first);
  });
  std::vector<Range> result;
  result.reserve(found.size());
  for (const auto& [leftover, candidate] : found) result.push_back(candidate);
  return result;
}

bool GangPlacer::PlaceGroup(int group, Range range) {
  const absl::optional<Level>& required = shape_->groups[group].required;
  return required.has_value() ? PlaceInOneOf(group, *required, range) : PlaceWithin(group, range);
}

bool GangPlacer::PlaceInOneOf(int group, Level level, Range range) {
  const Mark mark = Here();
  for (const Range& domain : Candidates(group, level, range)) {
    if (++trials_ > kMaxTrials) return false;
    if (PlaceWithin(group, domain)) return true;
    UndoTo(mark);
  }
  return false;
}

bool GangPlacer::PlaceWithin(int group, Range range) {
  const GangShape::Group& g = shape_->groups[group];
  if (LevelOf(g.preferred) > LevelOf(g.required)) return PlacePreferred(group, range);
  if (shape_->is_leaf(group)) return PlaceLeaf(group, range);
  for (int child : ChildrenInOrder(group)) {
    if (!PlaceGroup(child, range)) return false;
  }
  return true;
}

bool GangPlacer::PlacePreferred(int group, Range range) {
  const GangShape::Group& g = shape_->groups[group];
  const Mark mark = Here();
  for (int level = LevelOf(g.preferred); level > std::max(LevelOf(g.required), 0); --level) {
    for (const Range& domain : Candidates(group, static_cast<Level>(level), range)) {
      if (++trials_ > kMaxTrials) break;
      if (shape_->is_leaf(group)) {
        const int64_t left = g.min - FillByDomain(group, *g.preferred, domain, g.min);
        if (left == 0 || Fill(group, domain, left) == left) return true;
      } else {
        bool placed = true;
        for (int child : ChildrenInOrder(group)) placed = placed && PlaceGroup(child, domain);
        if (placed) return true;
      }
      UndoTo(mark);
    }
  }
  if (shape_->is_leaf(group)) {
    const int64_t left = g.min - FillByDomain(group, *g.preferred, range, g.min);
    return left == 0 || Fill(group, range, left) == left;
  }
  for (int child : ChildrenInOrder(group)) {
    if (!PlaceGroup(child, range)) return false;
  }
  return true;
}

bool GangPlacer::PlaceLeaf(int leaf, Range range) {
  const int64_t count = shape_->groups[leaf].min;
  return Fill(leaf, range, count) == count;
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

int64_t GangPlacer::FillByDomain(int leaf, Level level, Range range, int64_t count) {
  const NodeRows& rows = workspace_->rows();
  const ClassId id = shape_->groups[leaf].task_class;
  const std::vector<Range>& domains = rows.domains(level);
  const auto first = std::lower_bound(domains.begin(), domains.end(), range.first,
                                      [](const Range& d, int p) { return d.first < p; });
  std::vector<std::pair<int64_t, Range>> open;
  const ClassIndex& index = workspace_->Index(id, plane_);
  for (auto d = first; d != domains.end() && d->last <= range.last; ++d) {
    const int64_t total = index.TotalIn(*d);
    if (total > 0) open.emplace_back(total, *d);
  }
  int64_t left = count;
  while (left > 0 && !open.empty()) {
    // The tightest that holds the rest, else the roomiest.
    const auto best = std::min_element(open.begin(), open.end(), [left](auto& a, auto& b) {
      const bool a_holds = a.first >= left;
      const bool b_holds = b.first >= left;
      if (a_holds != b_holds) return a_holds;
      if (a.first != b.first) return a_holds ? a.first < b.first : a.first > b.first;
      return a.second.first < b.second.first;
    });
    left -= Fill(leaf, best->second, std::min(left, best->first));
    open.erase(best);
  }
  return count - left;
}

void GangPlacer::TakeRun(int leaf, int position, int64_t count) {
  workspace_->Take(position, shape_->groups[leaf].task_class, count, plane_);
  taken_.push_back({position, leaf, static_cast<int>(count)});
}

void GangPlacer::UndoTo(Mark mark) {
  workspace_->UndoTo(mark.journal);
  taken_.resize(mark.taken);
}

std::vector<int> GangPlacer::ChildrenInOrder(int group) const {
  std::vector<int> children = shape_->children[group];
  if (!largest_first_) return children;
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
    const int64_t room = std::min<int64_t>(shape.groups[leaf].max - has, limit[leaf]);
    if (room <= 0) continue;
    Fill(leaf, DomainFor(shape, leaf, all), room);
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
