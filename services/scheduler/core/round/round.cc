#include "services/scheduler/core/round/round.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace capstan::scheduler::round {

Proposal Round::Run(RoundInput input) {
  Begin(std::move(input));
  for (GangIndex gang : input_.order) {
    const Gang& entry = input_.snapshot->gangs[gang];
    if (entry.state != GangState::kPending) continue;
    // The way of nearly all of a long queue.
    const Failure& failure = failures_[2 * size_t{entry.shape}];
    if (failure.epoch == epoch_ && !MayPreempt(entry)) {
      KeepWaiting(gang, failure.reason);
    } else {
      Consider(gang);
    }
  }
  // Those not tried come before whoever could grow.
  if (options_.growth && !not_tried_.has_value()) GrowElastic();
  return std::move(proposal_);
}

void Round::Begin(RoundInput input) {
  input_ = std::move(input);
  workspace_.Load(input_.snapshot);
  placer_.emplace(&workspace_, input_.seed);
  proposal_ = Proposal();
  proposal_.version = input_.snapshot->version;
  proposal_.waits.reserve(input_.order.size());
  failures_.resize(2 * input_.snapshot->shapes.size());
  ++epoch_;
  failed_placements_ = 0;
  preemption_searches_ = 0;
  reservation_searches_ = 0;
  victims_.clear();
  vain_preemptors_.clear();
  quota_reasons_.clear();
  not_tried_.reset();
  lowest_victim_priority_ = std::numeric_limits<int32_t>::max();
  const CowView<GangIndex>& holders = input_.snapshot->holders;
  for (size_t h = 0; options_.preemption && h < holders.size(); ++h) {
    const Gang& gang = input_.snapshot->gangs[holders[h]];
    if (!gang.preemptible || gang.state != GangState::kRunning) continue;
    lowest_victim_priority_ = std::min(lowest_victim_priority_, gang.priority);
  }
}

Plane Round::PlaneOf(const Gang& gang) const {
  if (!proposal_.reservation.has_value()) return Plane::kNow;
  return input_.now + gang.declared <= proposal_.reservation->start ? Plane::kNow
                                                                    : Plane::kBeyondReservation;
}

Round::Failure& Round::FailureOf(ShapeId shape, Plane plane) {
  return failures_[2 * size_t{shape} + (plane == Plane::kNow ? 0 : 1)];
}

uint32_t Round::AddReason(Reason reason) {
  proposal_.reasons.push_back(std::move(reason));
  return static_cast<uint32_t>(proposal_.reasons.size() - 1);
}

void Round::KeepWaiting(GangIndex gang, uint32_t reason) {
  proposal_.waits.push_back({gang, reason});
}

uint32_t Round::QuotaReason(const Budgets::Refusal& refusal) {
  const auto [found, is_new] = quota_reasons_.try_emplace(
      std::make_pair(refusal.queue, refusal.dimension), static_cast<uint32_t>(0));
  if (is_new) {
    Reason reason;
    reason.obstacle = Obstacle::kQuota;
    reason.refusal = refusal;
    found->second = AddReason(std::move(reason));
  }
  return found->second;
}

void Round::Consider(GangIndex gang) {
  const Gang& entry = input_.snapshot->gangs[gang];
  const GangShape& shape = *input_.snapshot->shapes[entry.shape];
  const auto refusal = input_.budgets.Refuses(entry.queue, shape.demand);
  if (refusal.has_value()) {
    if (!TryPreempt(gang, PlaneOf(entry))) KeepWaiting(gang, QuotaReason(*refusal));
    return;
  }
  const Plane plane = PlaneOf(entry);
  const Failure& now = FailureOf(entry.shape, Plane::kNow);
  // What does not fit into all that is free does not fit into a part of it.
  const Failure& known = now.epoch == epoch_ ? now : FailureOf(entry.shape, plane);
  uint32_t reason = known.reason;
  if (known.epoch != epoch_) {
    if (failed_placements_ >= options_.max_failed_placements) {
      if (!not_tried_.has_value()) not_tried_ = AddReason(Reason());
      KeepWaiting(gang, *not_tried_);
      return;
    }
    if (TryStart(gang, plane)) return;
    ++failed_placements_;
    reason = AddReason(WhyNot(workspace_, shape, plane));
    const bool reserved = proposal_.reasons[reason].obstacle == Obstacle::kReservation;
    FailureOf(entry.shape, reserved ? plane : Plane::kNow) = {epoch_, reason};
  }
  if (TryPreempt(gang, plane)) return;
  KeepWaiting(gang, reason);
  if (proposal_.reasons[reason].obstacle != Obstacle::kNeverFits) TryReserve(gang);
}

bool Round::TryStart(GangIndex gang, Plane plane) {
  const Gang& entry = input_.snapshot->gangs[gang];
  const GangShape& shape = *input_.snapshot->shapes[entry.shape];
  auto runs = placer_->Place(shape, plane);
  if (!runs.has_value()) return false;
  input_.budgets.Charge(entry.queue, shape.demand, 1);
  proposal_.starts.push_back({gang, *std::move(runs)});
  return true;
}

bool Round::MayPreempt(const Gang& gang) const {
  return options_.preemption && preemption_searches_ < options_.max_preemption_searches &&
         (gang.priority > lowest_victim_priority_ || input_.budgets.may_reclaim(gang.queue));
}

bool Round::TryPreempt(GangIndex gang, Plane plane) {
  const Gang& entry = input_.snapshot->gangs[gang];
  if (!MayPreempt(entry)) return false;
  const auto kind = std::make_tuple(entry.shape, entry.queue, entry.priority);
  if (vain_preemptors_.contains(kind)) return false;
  ++preemption_searches_;
  auto preemption = FindVictims(workspace_, *placer_, input_.budgets, options_.preemption_limits,
                                victims_, gang, input_.now, plane);
  if (!preemption.has_value()) {
    vain_preemptors_.insert(kind);
    return false;
  }
  const Snapshot& snapshot = *input_.snapshot;
  const GangShape& shape = *snapshot.shapes[entry.shape];
  // The victims hold their places until they have gone: what they leave beside the preemptor's
  // place is nobody's in this round.
  for (const TaskRun& run : preemption->runs) {
    workspace_.Take(workspace_.rows().position(run.node), shape.groups[run.group].task_class,
                    run.count, plane, run.instance);
  }
  input_.budgets.Charge(entry.queue, shape.demand, 1);
  for (GangIndex victim : preemption->victims) {
    const Gang& ended = snapshot.gangs[victim];
    victims_.insert(victim);
    for (const TaskRun& run : *ended.runs) {
      const ClassId id = snapshot.shapes[ended.shape]->groups[run.group].task_class;
      input_.budgets.Charge(ended.queue, snapshot.classes[id].request, -run.count);
    }
  }
  proposal_.preemptions.push_back(*std::move(preemption));
  return true;
}

void Round::TryReserve(GangIndex gang) {
  if (!options_.backfill || proposal_.reservation.has_value() || reservation_searches_ >= 4) return;
  ++reservation_searches_;
  const Snapshot& snapshot = *input_.snapshot;
  std::vector<Departure> departures;
  for (size_t h = 0; h < snapshot.holders.size(); ++h) {
    departures.push_back(
        DepartureOf(snapshot, snapshot.holders[h], input_.now, options_.assumed_duration));
    if (victims_.contains(snapshot.holders[h])) departures.back().end = input_.now;
  }
  const auto add = [&](GangIndex started, const std::vector<TaskRun>& runs) {
    departures.push_back(DepartureOf(snapshot, started, input_.now, options_.assumed_duration));
    departures.back().runs = std::make_shared<const std::vector<TaskRun>>(runs);
  };
  for (const Start& start : proposal_.starts) add(start.gang, start.runs);
  for (const Preemption& preemption : proposal_.preemptions) {
    add(preemption.preemptor, preemption.runs);
  }
  proposal_.reservation = Reserve(workspace_, *placer_, gang, std::move(departures), input_.now);
}

void Round::GrowElastic() {
  const Snapshot& snapshot = *input_.snapshot;
  const std::vector<Start> started = proposal_.starts;
  for (const Start& start : started) GrowOne(start.gang, start.runs);
  std::vector<GangIndex> running;
  for (size_t h = 0; h < snapshot.holders.size(); ++h) {
    const Gang& gang = snapshot.gangs[snapshot.holders[h]];
    if (gang.state != GangState::kRunning || victims_.contains(snapshot.holders[h])) continue;
    if (snapshot.shapes[gang.shape]->is_elastic) running.push_back(snapshot.holders[h]);
  }
  std::sort(running.begin(), running.end(), [&snapshot](GangIndex a, GangIndex b) {
    const Gang& left = snapshot.gangs[a];
    const Gang& right = snapshot.gangs[b];
    return left.priority != right.priority ? left.priority > right.priority : a < b;
  });
  for (GangIndex gang : running) GrowOne(gang, *snapshot.gangs[gang].runs);
}

void Round::GrowOne(GangIndex gang, const std::vector<TaskRun>& runs) {
  const Gang& entry = input_.snapshot->gangs[gang];
  const GangShape& shape = *input_.snapshot->shapes[entry.shape];
  if (!shape.is_elastic) return;
  const Plane plane = proposal_.reservation.has_value() ? Plane::kBeyondReservation : Plane::kNow;
  Start growth;
  growth.gang = gang;
  std::vector<TaskRun> all = runs;
  for (int leaf : shape.leaves[0]) {
    const Request& request = workspace_.task_class(shape.groups[leaf].task_class).request;
    std::vector<int64_t> limit(shape.groups.size(), 0);
    limit[leaf] = input_.budgets.Times(entry.queue, request, shape.groups[leaf].max);
    for (const TaskRun& run : placer_->Grow(shape, all, plane, limit)) {
      input_.budgets.Charge(entry.queue, request, run.count);
      all.push_back(run);
      growth.runs.push_back(run);
    }
  }
  if (!growth.runs.empty()) proposal_.growths.push_back(std::move(growth));
}

}  // namespace capstan::scheduler::round
