#include "services/scheduler/core/round/preemption.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "services/scheduler/core/round/domain_counts.h"
#include "services/scheduler/core/round/slices.h"

namespace capstan::scheduler::round {
namespace {

struct Candidate {
  GangIndex gang = 0;
  uint64_t rank = 0;
  QueueId queue = 0;
  int32_t priority = 0;
  int64_t cost = 0;
  const GangShape* shape = nullptr;
  std::shared_ptr<const std::vector<TaskRun>> runs;
  // Tasks of the preemptor that its end alone makes room for in the domain at hand.
  int64_t gain = 0;
  // Whether what it holds counts as free.
  bool is_out = false;
};

// Whether a gang fits if and only if one domain of the root's level takes enough tasks in all, those
// in slices by whole ones.
bool IsCountable(const GangShape& shape) {
  const std::vector<GangShape::Need>& sliced = shape.sliced[0];
  if (shape.needs[0].size() != 1 || sliced.size() > 1) return false;
  if (sliced.size() == 1 && sliced[0].count != shape.needs[0][0].count) return false;
  for (size_t g = 1; g < shape.groups.size(); ++g) {
    if (shape.groups[g].required.has_value()) return false;
  }
  return true;
}

// The rules of the round's budgets.
class BudgetRules final : public EvictionRules {
 public:
  BudgetRules(const Snapshot& snapshot, const Budgets& budgets, const PreemptionLimits& limits,
              GangIndex preemptor, absl::Time now)
      : snapshot_(snapshot), budgets_(budgets), limits_(limits), preemptor_(preemptor), now_(now) {}

  bool MayEvict(GangIndex victim) const override {
    return round::MayEvict(snapshot_, budgets_, limits_, preemptor_, victim, now_);
  }
  std::vector<GangIndex> Together(std::vector<GangIndex> candidates) const override {
    return candidates;
  }
  void SetEnded(GangIndex victim, bool ended) override {
    budgets_.Charge(snapshot_.gangs[victim].queue, HeldBy(victim), ended ? -1 : 1);
  }
  bool MayStart() const override {
    const Gang& gang = snapshot_.gangs[preemptor_];
    return !budgets_.Refuses(gang.queue, snapshot_.shapes[gang.shape]->demand).has_value();
  }

 private:
  const Request& HeldBy(GangIndex victim) {
    const auto [found, is_new] = held_.try_emplace(victim);
    if (!is_new) return found->second;
    const Gang& gang = snapshot_.gangs[victim];
    ResourceVector held{};
    for (const TaskRun& run : *gang.runs) {
      const ClassId id = snapshot_.shapes[gang.shape]->groups[run.group].task_class;
      AddTo(held, snapshot_.classes[id].request, run.count);
    }
    for (int d = 0; d < kMaxDimensions; ++d) {
      if (held[d] > 0) found->second.push_back({static_cast<Dimension>(d), held[d]});
    }
    return found->second;
  }

  const Snapshot& snapshot_;
  Budgets budgets_;
  const PreemptionLimits& limits_;
  const GangIndex preemptor_;
  const absl::Time now_;
  absl::flat_hash_map<GangIndex, Request> held_;
};

class VictimSearch {
 public:
  VictimSearch(Workspace& workspace, GangPlacer& placer, EvictionRules& rules,
               const PreemptionLimits& limits, GangIndex preemptor, absl::Time now)
      : workspace_(workspace),
        placer_(placer),
        rules_(rules),
        limits_(limits),
        preemptor_(preemptor),
        now_(now),
        queue_(workspace.snapshot().gangs[preemptor].queue),
        shape_(*workspace.snapshot().shapes[workspace.snapshot().gangs[preemptor].shape]),
        countable_(IsCountable(shape_)),
        class_(shape_.needs[0].front().task_class),
        level_(shape_.groups[0].required.value_or(Level::kCluster)) {
    if (!shape_.sliced[0].empty()) slices_ = shape_.slices_of(shape_.sliced[0].front());
  }

  absl::optional<Preemption> Run(const absl::flat_hash_set<GangIndex>& excluded, Plane plane);

 private:
  using Victims = std::vector<size_t>;

  void Collect(const absl::flat_hash_set<GangIndex>& excluded);
  int64_t LostWorkOf(GangIndex gang) const;
  std::vector<std::vector<size_t>> CandidatesByDomain(Level level) const;
  void SearchDomain(Range domain, std::vector<size_t> candidates);
  void TryAlone(const std::vector<size_t>& candidates);
  // Those that the rules let end together, the cheapest first.
  std::vector<size_t> Together(std::vector<size_t> candidates) const;
  // Takes back, in this order, whoever is not needed, until none can be.
  void Reprieve(const std::vector<size_t>& order);
  // Adds (1) or removes (-1) what a candidate holds to what is free.
  void Move(Candidate& candidate, int sign);
  bool Fits();
  void Offer(Victims victims);
  std::tuple<int32_t, int64_t, size_t, Victims> Rank(const Victims& victims) const;
  // Takes out of best_, which counts as gone, whoever is not needed after all because the gang fits
  // into another domain; says of the others, in order, why they are.
  std::vector<Need> Certify();
  // Why the gang does not start as things are; absent if it does, and then best_domain_ takes it.
  absl::optional<Need> Missing(const DomainCounts& counts);
  absl::optional<Preemption> Conclude();

  Workspace& workspace_;
  GangPlacer& placer_;
  EvictionRules& rules_;
  const PreemptionLimits& limits_;
  const GangIndex preemptor_;
  const absl::Time now_;
  const QueueId queue_;
  const GangShape& shape_;
  const bool countable_;
  const ClassId class_;
  // Of countable gangs.
  absl::Span<const Slice> slices_;
  // All of it is in one domain of this.
  const Level level_;
  Plane plane_ = Plane::kNow;
  std::vector<Candidate> candidates_;
  Range domain_;
  // Tasks of class_ that fit into domain_; of countable gangs only.
  absl::optional<SliceCounts> fits_;
  int64_t tried_tasks_ = 0;
  absl::optional<Victims> best_;
  Range best_domain_;
};

void VictimSearch::Collect(const absl::flat_hash_set<GangIndex>& excluded) {
  const Snapshot& snapshot = workspace_.snapshot();
  for (size_t h = 0; h < snapshot.holders.size(); ++h) {
    const GangIndex gang = snapshot.holders[h];
    const Gang& entry = snapshot.gangs[gang];
    if (entry.state != GangState::kRunning || !entry.preemptible || excluded.contains(gang) ||
        !rules_.MayEvict(gang)) {
      continue;
    }
    Candidate candidate;
    candidate.gang = gang;
    candidate.rank = rules_.RankOf(gang);
    candidate.queue = entry.queue;
    candidate.priority = entry.priority;
    candidate.cost = LostWorkOf(gang);
    if (const absl::optional<int64_t> cost = rules_.CostOf(gang)) {
      candidate.priority = 0;
      candidate.cost = *cost;
    }
    candidate.shape = snapshot.shapes[entry.shape].get();
    candidate.runs = entry.runs;
    candidates_.push_back(std::move(candidate));
  }
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.rank < b.rank; });
}

int64_t VictimSearch::LostWorkOf(GangIndex gang) const {
  if (!limits_.weigh_lost_work) return 1;
  const absl::optional<int64_t> known = rules_.LostWorkOf(gang);
  return known.has_value() ? *known : LostWork(workspace_.snapshot(), gang, now_);
}

std::vector<std::vector<size_t>> VictimSearch::CandidatesByDomain(Level level) const {
  const NodeRows& rows = workspace_.rows();
  std::vector<std::vector<size_t>> by_domain(rows.domains(level).size());
  for (size_t c = 0; c < candidates_.size(); ++c) {
    for (const TaskRun& run : *candidates_[c].runs) {
      const int position = rows.position(run.node);
      const int domain = position < 0 ? -1 : rows.domain_of(level, position);
      if (domain < 0) continue;
      if (by_domain[domain].empty() || by_domain[domain].back() != c) {
        by_domain[domain].push_back(c);
      }
    }
  }
  // A queue's limit may be what is in the way, and then its gangs count wherever they are.
  if (!rules_.MayStart()) {
    for (std::vector<size_t>& candidates : by_domain) {
      for (size_t c = 0; c < candidates_.size(); ++c) {
        if (candidates_[c].queue == queue_) candidates.push_back(c);
      }
    }
  }
  for (std::vector<size_t>& candidates : by_domain) {
    std::sort(candidates.begin(), candidates.end());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  }
  return by_domain;
}

void VictimSearch::Move(Candidate& candidate, int sign) {
  candidate.is_out = sign > 0;
  rules_.SetEnded(candidate.gang, candidate.is_out);
  if (!countable_) {
    workspace_.Give(*candidate.shape, *candidate.runs, sign);
    return;
  }
  const NodeRows& rows = workspace_.rows();
  for (const TaskRun& run : *candidate.runs) {
    const int position = rows.position(run.node);
    if (position < 0) continue;
    if (position < domain_.first || position >= domain_.last) {
      workspace_.Give(*candidate.shape, {&run, 1}, sign);
      continue;
    }
    const int before = workspace_.Index(class_, plane_).fit(position);
    workspace_.Give(*candidate.shape, {&run, 1}, sign);
    fits_->Add(position, workspace_.Index(class_, plane_).fit(position) - before);
  }
}

bool VictimSearch::Fits() {
  if (!rules_.MayStart()) return false;
  if (countable_) return fits_->total() >= shape_.min_tasks;
  if (!placer_.MayFit(shape_, 0, domain_, plane_)) return false;
  tried_tasks_ += shape_.min_tasks;
  const size_t mark = workspace_.Mark();
  const bool placed = placer_.PlaceIn(shape_, domain_, plane_).has_value();
  workspace_.UndoTo(mark);
  return placed;
}

std::tuple<int32_t, int64_t, size_t, VictimSearch::Victims> VictimSearch::Rank(
    const Victims& victims) const {
  int32_t priority = std::numeric_limits<int32_t>::min();
  int64_t cost = 0;
  for (size_t victim : victims) {
    priority = std::max(priority, candidates_[victim].priority);
    cost += candidates_[victim].cost;
  }
  return {priority, cost, victims.size(), victims};
}

void VictimSearch::Offer(Victims victims) {
  std::sort(victims.begin(), victims.end());
  if (best_.has_value() && Rank(*best_) <= Rank(victims)) return;
  best_ = std::move(victims);
  best_domain_ = domain_;
}

void VictimSearch::TryAlone(const std::vector<size_t>& candidates) {
  const int64_t before = fits_->total();
  for (size_t c : candidates) {
    Move(candidates_[c], 1);
    candidates_[c].gain = fits_->total() - before;
    if (Fits()) Offer({c});
    Move(candidates_[c], -1);
  }
}

std::vector<size_t> VictimSearch::Together(std::vector<size_t> candidates) const {
  std::sort(candidates.begin(), candidates.end(), [this](size_t a, size_t b) {
    const Candidate& x = candidates_[a];
    const Candidate& y = candidates_[b];
    return std::tie(x.priority, x.cost, a) < std::tie(y.priority, y.cost, b);
  });
  std::vector<GangIndex> gangs;
  for (size_t c : candidates) gangs.push_back(candidates_[c].gang);
  gangs = rules_.Together(std::move(gangs));
  candidates.clear();
  for (GangIndex gang : gangs) {
    const auto found = std::lower_bound(
        candidates_.begin(), candidates_.end(), rules_.RankOf(gang),
        [](const Candidate& candidate, uint64_t wanted) { return candidate.rank < wanted; });
    candidates.push_back(static_cast<size_t>(found - candidates_.begin()));
  }
  std::sort(candidates.begin(), candidates.end());
  return candidates;
}

void VictimSearch::Reprieve(const std::vector<size_t>& order) {
  Victims victims = order;
  bool changed = true;
  while (changed && tried_tasks_ <= limits_.max_tried_tasks) {
    changed = false;
    Victims kept;
    for (size_t c : victims) {
      Move(candidates_[c], -1);
      if (Fits()) {
        changed = true;
        continue;
      }
      Move(candidates_[c], 1);
      kept.push_back(c);
      if (tried_tasks_ > limits_.max_tried_tasks) break;
    }
    victims = std::move(kept);
    // Whatever fits goes on fitting when more is free: one pass is enough.
    if (countable_) break;
  }
  if (tried_tasks_ <= limits_.max_tried_tasks) Offer(std::move(victims));
}

void VictimSearch::SearchDomain(Range domain, std::vector<size_t> candidates) {
  domain_ = domain;
  const size_t mark = workspace_.Mark();
  if (countable_) {
    fits_.emplace(&workspace_.rows(), slices_);
    const ClassIndex& index = workspace_.Index(class_, plane_);
    for (int p = domain.first; p < domain.last; ++p) fits_->Add(p, index.fit(p));
    TryAlone(candidates);
  }
  candidates = Together(std::move(candidates));
  const auto release_all = [this, &candidates] {
    for (size_t c : candidates) {
      if (!candidates_[c].is_out) Move(candidates_[c], 1);
    }
  };
  release_all();
  if (Fits()) {
    // The dearest are taken back first; by themselves, then for what each would make room for.
    std::sort(candidates.begin(), candidates.end(), [this](size_t a, size_t b) {
      const Candidate& x = candidates_[a];
      const Candidate& y = candidates_[b];
      return std::tie(y.priority, y.cost, a) < std::tie(x.priority, x.cost, b);
    });
    Reprieve(candidates);
    if (countable_) {
      std::sort(candidates.begin(), candidates.end(), [this](size_t a, size_t b) {
        const Candidate& x = candidates_[a];
        const Candidate& y = candidates_[b];
        if (x.priority != y.priority) return x.priority > y.priority;
        const auto x_rate = static_cast<__int128>(x.cost) * y.gain;
        const auto y_rate = static_cast<__int128>(y.cost) * x.gain;
        return x_rate != y_rate ? x_rate > y_rate : a < b;
      });
      release_all();
      Reprieve(candidates);
    }
  }
  for (size_t c : candidates) {
    if (candidates_[c].is_out) Move(candidates_[c], -1);
  }
  workspace_.UndoTo(mark);
}

absl::optional<Need> VictimSearch::Missing(const DomainCounts& counts) {
  if (!countable_) return Need{rules_.MayStart() ? Need::Kind::kPlace : Need::Kind::kQueues};
  const std::vector<int64_t>& totals = counts.totals();
  const auto most = std::max_element(totals.begin(), totals.end());
  if (*most < shape_.min_tasks) return Need{Need::Kind::kRoom, *most};
  if (!rules_.MayStart()) return Need{Need::Kind::kQueues};
  best_domain_ = workspace_.rows().domains(level_)[most - totals.begin()];
  return absl::nullopt;
}

std::vector<Need> VictimSearch::Certify() {
  const NodeRows& rows = workspace_.rows();
  DomainCounts counts(&rows, level_, slices_);
  if (countable_) {
    const ClassIndex& index = workspace_.Index(class_, plane_);
    for (int p = 0; p < rows.size(); ++p) counts.Add(p, index.fit(p));
  }
  const auto set_gone = [&](size_t victim, bool gone) {
    const Candidate& candidate = candidates_[victim];
    rules_.SetEnded(candidate.gang, gone);
    if (!countable_) return;
    for (const TaskRun& run : *candidate.runs) {
      const int position = rows.position(run.node);
      if (position < 0) continue;
      const int before = workspace_.Index(class_, plane_).fit(position);
      workspace_.Give(*candidate.shape, {&run, 1}, gone ? 1 : -1);
      counts.Add(position, workspace_.Index(class_, plane_).fit(position) - before);
    }
  };
  const size_t mark = workspace_.Mark();
  for (const size_t victim : *best_) set_gone(victim, true);
  std::vector<Need> needs;
  for (size_t at = 0; at < best_->size();) {
    const size_t victim = (*best_)[at];
    set_gone(victim, false);
    if (const absl::optional<Need> need = Missing(counts)) {
      set_gone(victim, true);
      needs.push_back(*need);
      ++at;
      continue;
    }
    // It stays: less is free, and what the others are needed for is to be said anew.
    best_->erase(best_->begin() + static_cast<ptrdiff_t>(at));
    needs.clear();
    at = 0;
  }
  for (const size_t victim : *best_) rules_.SetEnded(candidates_[victim].gang, false);
  workspace_.UndoTo(mark);
  return needs;
}

absl::optional<Preemption> VictimSearch::Conclude() {
  if (!best_.has_value() || best_->empty()) return absl::nullopt;
  Preemption preemption;
  preemption.preemptor = preemptor_;
  preemption.needs = Certify();
  const size_t mark = workspace_.Mark();
  for (size_t victim : *best_) {
    const Candidate& candidate = candidates_[victim];
    workspace_.Give(*candidate.shape, *candidate.runs, 1);
    preemption.victims.push_back(candidate.gang);
    preemption.cost += candidate.cost;
  }
  const auto placed = placer_.PlaceIn(shape_, best_domain_, plane_);
  workspace_.UndoTo(mark);
  if (!placed.has_value()) return absl::nullopt;
  preemption.runs = *placed;
  return preemption;
}

absl::optional<Preemption> VictimSearch::Run(const absl::flat_hash_set<GangIndex>& excluded,
                                             Plane plane) {
  plane_ = plane;
  Collect(excluded);
  if (candidates_.empty()) return absl::nullopt;
  std::vector<std::vector<size_t>> by_domain = CandidatesByDomain(level_);
  for (size_t d = 0; d < by_domain.size(); ++d) {
    if (by_domain[d].empty()) continue;
    SearchDomain(workspace_.rows().domains(level_)[d], std::move(by_domain[d]));
    if (tried_tasks_ > limits_.max_tried_tasks) break;
  }
  return Conclude();
}

}  // namespace

int64_t LostWork(const Snapshot& snapshot, GangIndex gang, absl::Time now) {
  const Gang& entry = snapshot.gangs[gang];
  return LostWork(snapshot, gang, now - std::max(entry.started, entry.checkpointed));
}

int64_t LostWork(const Snapshot& snapshot, GangIndex gang, absl::Duration unsaved) {
  // Beyond these bounds gangs cost the same; sums stay far below 2^63.
  constexpr int64_t kMostWeight = 64'000;
  constexpr int64_t kMostSeconds = 10'000'000;
  const Gang& entry = snapshot.gangs[gang];
  const GangShape& shape = *snapshot.shapes[entry.shape];
  const int64_t seconds = std::clamp<int64_t>(absl::ToInt64Seconds(unsaved), 1, kMostSeconds);
  int64_t cost = 0;
  for (const TaskRun& run : *entry.runs) {
    int64_t cores = 0;
    int64_t accelerators = 0;
    for (const Quantity& q : snapshot.classes[shape.groups[run.group].task_class].request) {
      if (q.dimension == kCpuMillis) cores = q.amount;
      if (q.dimension > kMemoryBytes) {
        accelerators += std::min(q.amount, kMostWeight) * 1000 / snapshot.parts[q.dimension];
      }
    }
    const int64_t weight =
        std::clamp<int64_t>(accelerators > 0 ? accelerators : cores, 1, kMostWeight);
    cost += weight * run.count * seconds;
  }
  return std::max<int64_t>(cost, 1);
}

bool MayEvict(const Snapshot& snapshot, const Budgets& budgets, const PreemptionLimits& limits,
              GangIndex preemptor, GangIndex victim, absl::Time now) {
  const Gang& wants = snapshot.gangs[preemptor];
  const Gang& holds = snapshot.gangs[victim];
  if (holds.state != GangState::kRunning || !holds.preemptible) return false;
  if (now - holds.started < limits.min_runtime) return false;
  if (holds.queue == wants.queue) return holds.priority < wants.priority;
  return budgets.may_reclaim(wants.queue) && budgets.above_guarantee(holds.queue);
}

absl::optional<Preemption> FindVictims(Workspace& workspace, GangPlacer& placer,
                                       const Budgets& budgets, const PreemptionLimits& limits,
                                       const absl::flat_hash_set<GangIndex>& excluded,
                                       GangIndex preemptor, absl::Time now, Plane plane) {
  BudgetRules rules(workspace.snapshot(), budgets, limits, preemptor, now);
  return FindVictims(workspace, placer, rules, limits, excluded, preemptor, now, plane);
}

absl::optional<Preemption> FindVictims(Workspace& workspace, GangPlacer& placer,
                                       EvictionRules& rules, const PreemptionLimits& limits,
                                       const absl::flat_hash_set<GangIndex>& excluded,
                                       GangIndex preemptor, absl::Time now, Plane plane) {
  return VictimSearch(workspace, placer, rules, limits, preemptor, now).Run(excluded, plane);
}

}  // namespace capstan::scheduler::round
