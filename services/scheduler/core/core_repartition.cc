// Gangs that are moved to make room in one piece for MIG instances: stopped with grace, and started
// again at once, in the next generation, where they are in nobody's way.
//
// That it comes to an end, and nobody is moved for ever:
//
// - A move is begun only if then the gang that waits fits, and each that is moved fits again, as
//   large as it is. So each starts one that waits and leaves nobody waiting that did not: there are
//   no more moves than times that a gang began to wait, but for what Nodes that fail undo.
// - One is under way at a time, and the next begins `repartition_pause` later at the earliest; and
//   where nobody could be moved, somebody else is looked for 10 s later at the earliest.
// - Each is a disruption of whom it moves, which its Queue's budget bounds; and who starts anew must
//   run for its Queue's min_runtime before it can be moved again.
//
// The places of those that are moved are part of the decision, and are held from then on: nobody
// else is placed there. For the one that they are moved for a place is found anew in each round, as
// for others that make room.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_round.h"
#include "services/scheduler/core/disruptions.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/move_terms.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/quota/queue_order.h"
#include "services/scheduler/core/scheduler_core.h"
#include "services/scheduler/core/time_words.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::Stop;
using rec::GangHeadRecord;

namespace {

// Of one round: what is left is tried in the next.
constexpr int kMaxMoveSearches = 2;

}  // namespace

bool SchedulerCore::MayBeInTheWay(const JobEntry& job) const {
  return config_.repartition_max_cost > absl::ZeroDuration() && queue_book_.waiting() > 0 &&
         AsksForMig(job.spec.spec());
}

bool SchedulerCore::MovesFor(const JobEntry& job) {
  const auto& victims = job.state.making_room();
  return std::any_of(victims.begin(), victims.end(),
                     [](const auto& victim) { return victim.has_move(); });
}

bool SchedulerCore::AnyMoves() const {
  return std::any_of(
             making_room_.begin(), making_room_.end(),
             [this](const OrderKey& key) { return MovesFor(*model_.FindJob(std::get<2>(key))); }) ||
         std::any_of(moving_.begin(), moving_.end(), [this](const std::string& uid) {
           const JobEntry* job = model_.FindJob(uid);
           return job != nullptr && (IsMoving(*job) || IsMoved(*job));
         });
}

void SchedulerCore::RestorePause(const JobEntry& job) {
  const auto& all = job.state.disruptions();
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    if (one->reason() != kRepartitioned) continue;
    // Of a clock that was set back since, no more than a whole pause.
    const absl::Duration past = std::max(now_.wall - ToTime(one->time()), absl::ZeroDuration());
    next_move_at_ = std::max(next_move_at_, now_.boot + (config_.repartition_pause - past));
    return;
  }
}

bool SchedulerCore::TryRepartition(const QueueOrder& order, JobEntry* job,
                                   const GangRequest& request, RoundWork* work) {
  // Whoever doubts what it sees ends nothing.
  if (config_.repartition_max_cost <= absl::ZeroDuration() || leases_.frozen()) return false;
  // Who stands elsewhere takes no less.
  for (int r = 0; r < kMaxResources; ++r) {
    if (order.next_request()[r] > work->free[r]) return false;
  }
  const std::string kind = absl::StrCat(request.Shape(), work->placing->Openings(request));
  if (work->immovable.count(kind) > 0 || work->move_searches == kMaxMoveSearches) return false;
  if (AnyMoves()) return false;
  if (now_.boot < next_move_at_) {
    protected_until_ = std::min(protected_until_, next_move_at_);
    return false;
  }
  work->immovable.insert(kind);
  // What others leave anyway may be enough.
  if (work->placing->FitsAfterEnding(request)) return false;
  ++work->move_searches;
  const MoveTerms terms(&model_, &work->held, request, config_.repartition_act_cost,
                        [this](const JobEntry& held) { return RequestOf(held); });
  const absl::optional<MovePlan> plan = work->placing->FindMoves(
      request, terms, absl::ToInt64Milliseconds(config_.repartition_max_cost),
      reserved_ == job->uid());
  if (!plan.has_value()) {
    for (size_t i = 0; i < work->held.size(); ++i) {
      const HeldGang& gang = work->held[i];
      if (gang.preemptible || gang.ending || !terms.IsInTheWay(static_cast<int>(i))) continue;
      const JobEntry& other = *model_.FindJob(gang.uid);
      const absl::Duration left =
          std::max(MinRuntime(other) - RanFor(other), ProtectedByBudget(model_, other, now_.wall));
      if (left > absl::ZeroDuration() &&
          other.spec.spec().preemption() != JobSpec::PREEMPTION_NEVER && other.live() &&
          other.gang->head.phase() == GangHeadRecord::PHASE_STARTED) {
        protected_until_ = std::min(protected_until_, now_.boot + left);
      }
    }
    return false;
  }
  const size_t count = plan->moves.size();
  SetState(job, Job::STATE_QUEUED, "MAKING_ROOM",
           absl::StrCat(count, count == 1 ? " Job is" : " Jobs are",
                        " being moved so that it has room in one piece, which costs ",
                        absl::FormatDuration(absl::Milliseconds(plan->cost)), " of GPU time"));
  decisions_.push_back(job->uid());
  for (const Relocation& move : plan->moves) {
    // Nobody asks for it again in this round.
    work->victims[move.held].leaf = -1;
    if (work->victims[move.held].spare >= 0)
      work->victims[work->victims[move.held].spare].leaf = -1;
    JobEntry* moved = FindJob(work->held[move.held].uid);
    held_book_.SetChanged(*moved);
    rec::JobStateRecord::Victim& record = *job->state.add_making_room();
    record.set_job_uid(moved->uid());
    record.set_generation(moved->gang->head.generation());
    *record.mutable_move() = PlannedPlaceOf(work->nodes, move.to);
    MoveGang(moved, record.move(), job->spec.name());
  }
  next_move_at_ = now_.boot + config_.repartition_pause;
  return true;
}

void SchedulerCore::PauseMoveSearches(const RoundWork& work) {
  if (work.move_searches == 0 || AnyMoves()) return;
  next_move_at_ =
      std::max(next_move_at_, now_.boot + std::min(config_.repartition_pause, kPauseAfterVain));
}

void SchedulerCore::MoveGang(JobEntry* job, const rec::PlannedPlace& to,
                             const std::string& beneficiary) {
  *job->gang->head.mutable_move() = to;
  // Executors and programs are told what they know: another Job needs the room.
  StopGang(job, Stop::REASON_PREEMPTED, beneficiary);
  moving_.insert(job->uid());
}

absl::optional<Amounts> SchedulerCore::TakenByMoves() const {
  absl::optional<Amounts> taken;
  const auto take = [&taken](const Amounts& amounts) {
    if (!taken.has_value()) taken.emplace();
    taken->Subtract(amounts);
  };
  for (const OrderKey& key : making_room_) {
    const JobEntry& job = *model_.FindJob(std::get<2>(key));
    if (MovesFor(job)) take(LeastOf(job));
  }
  for (const std::string& uid : moving_) {
    const JobEntry* job = model_.FindJob(uid);
    if (job == nullptr || !IsMoved(*job)) continue;
    for (int rank = 0; rank < static_cast<int>(job->gang->tasks.size()); ++rank) {
      take(AmountsOf(*job, rank));
    }
  }
  return taken;
}

void SchedulerCore::StartMoved(JobEntry* job, const GangRequest& request,
                               const GangPlacement& placement, RoundWork* work) {
  returning_.erase(OrderOf(*job));
  moving_.erase(job->uid());
  PlaceIn(job, request, placement, work);
  queue_book_.SetLive(*job);
  // Somebody may wait for its turn to have others moved.
  room_changed_ = room_changed_ || !AnyMoves();
}

void SchedulerCore::KeepMoves(RoundWork* work) {
  for (auto uid = moving_.begin(); uid != moving_.end();) {
    const JobEntry* job = model_.FindJob(*uid);
    const bool goes_on = job != nullptr && (IsMoving(*job) || IsMoved(*job));
    uid = goes_on ? std::next(uid) : moving_.erase(uid);
  }
  std::map<OrderKey, absl::optional<GangPlacement>> places;
  for (const std::string& uid : moving_) {
    const JobEntry& job = *model_.FindJob(uid);
    work->awaits_report = work->awaits_report || !IsHeard(job.gang->head.cluster());
    const GangRequest request = MovedRequest(RequestOf(job), job);
    const auto position_of = [&](const NodeId& id) { return work->PositionOf(id); };
    absl::optional<GangPlacement> place = PlacementOf(job, job.gang->head.move(), position_of);
    for (size_t rank = 0; place.has_value() && rank < place->nodes.size(); ++rank) {
      const int group = GroupOf(job, static_cast<int>(rank)).first;
      if (!Admits(work->nodes[place->nodes[rank]], request, group)) place.reset();
    }
    places.emplace(OrderOf(job), std::move(place));
    if (!job.live()) continue;
    // Its end may be long in coming.
    for (int rank = 0; rank < static_cast<int>(job.gang->tasks.size()); ++rank) {
      const int at = job.gang->ended(rank) ? -1 : work->PositionOf(job.gang->node(rank));
      if (at >= 0 && work->standings[at].silent) work->stuck.insert(uid);
    }
  }
  if (work->awaits_report) {
    work->stuck.clear();
    return;
  }
  // First whose place is free: what is held for others makes Nodes look short of room.
  for (auto& [key, place] : places) {
    JobEntry* job = FindJob(std::get<2>(key));
    if (!IsMoved(*job) || !place.has_value()) continue;
    const GangRequest request = MovedRequest(RequestOf(*job), *job);
    if (work->placing->PlaceAt(request, *place)) StartMoved(job, request, *place, work);
  }
  for (const auto& [key, place] : places) {
    const JobEntry& job = *model_.FindJob(std::get<2>(key));
    if (!IsMoving(job) && !IsMoved(job)) continue;
    // Nobody waits for one that may be long in ending.
    const bool may_hold = IsMoving(job) ? work->stuck.count(job.uid()) == 0 : work->stuck.empty();
    const bool held = may_hold && place.has_value() &&
                      work->placing->HoldAt(MovedRequest(RequestOf(job), job), *place);
    if (!held && IsMoved(job)) work->misplaced.push_back(job.uid());
  }
}

bool SchedulerCore::IsPlanWhole(const JobEntry& job, const RoundWork& work) const {
  const auto& victims = job.state.making_room();
  return std::none_of(victims.begin(), victims.end(), [&work](const auto& victim) {
    return work.stuck.count(victim.job_uid()) > 0;
  });
}

void SchedulerCore::PlaceMovedElsewhere(RoundWork* work) {
  for (const std::string& uid : work->misplaced) {
    JobEntry* job = FindJob(uid);
    GangRequest request = RequestOf(*job);
    for (size_t group = 0; group < request.groups.size(); ++group) {
      request.groups[group].more =
          SizeOf(*job, static_cast<int>(group)) - request.groups[group].replicas;
    }
    if (const auto placement = work->placing->Place(request)) {
      StartMoved(job, request, *placement, work);
      continue;
    }
    const BootTime until = returning_.at(OrderOf(*job));
    SetState(job, Job::STATE_QUEUED, kReturning,
             absl::StrCat("the place that it was moved to cannot be used any more; until ",
                          TimeInWords(now_.wall + (until - now_.boot)),
                          " it goes before others wherever it fits"));
  }
}

}  // namespace capstan::scheduler
