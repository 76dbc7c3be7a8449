// Who is tried in a round, in what order, and for whom others end.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_round.h"
#include "services/scheduler/core/disruptions.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/making_room.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/queue_victims.h"
#include "services/scheduler/core/quota/gang_queues.h"
#include "services/scheduler/core/quota/queue_order.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::Stop;
using rec::GangHeadRecord;

namespace {

// Bounds of one round: what is left is tried in the next.
constexpr int kMaxVictimSearches = 8;
constexpr int kMaxVictimQuestions = 64;
constexpr int kMaxReserveAttempts = 4;

// RESERVED and INSUFFICIENT_RESOURCES change places with each Task that ends somewhere. Where many
// wait, which of them it is is written anew for few in a round, and for each of them seldom.
constexpr size_t kAllRevised = 256;
constexpr int kMaxRevisions = 32;
constexpr absl::Duration kReasonHolds = absl::Minutes(1);
// Jobs looked at and left because of that; then no more are written in the round.
constexpr int kMaxPutOff = 256;

// Kinds of Job of which it is remembered what they ask for.
constexpr size_t kMostAsked = 4096;

constexpr char kReserved[] =
    "fits, but might delay a Job that room is kept for; with a time_limit that ends before that "
    "one starts it could run";

// What the queues' rules know of who asks for room.
using Asker = std::tuple<int, uint32_t, int32_t>;
Asker AskerOf(const QueueOrder& order, int32_t standing) {
  return {order.next_leaf(), order.next_gang().kind.request, standing};
}

}  // namespace

bool SchedulerCore::MayWant(const JobEntry& job) const {
  return queue_book_.IsOutranked(job) || queue_book_.AnyOutside(job);
}

void SchedulerCore::TryInOrder(RoundWork* work) {
  std::vector<const JobEntry*> placed, nominated, left;
  {
    QueueOrder order = queue_book_.Order(/*fresh_only=*/!room_changed_, work->capacity);
    while (order.has_next() && !StepFull()) {
      if (IsLeftUnseen(order, *work)) {
        order.SkipKind();
        continue;
      }
      const QueuedGang gang = order.next_gang();
      JobEntry* const job = FindJob(queue_book_.UidOf(gang));
      const Tried tried = TryNext(order, job, work);
      if (tried == Tried::kPlaced || tried == Tried::kMakesRoom) {
        (tried == Tried::kPlaced ? placed : nominated).push_back(job);
        queue_book_.TakeStart(*job);
        order.Start(queue_book_.UseOf(*job));
      } else if (tried == Tried::kLeft || gang.kind.fresh || config_.visit_all) {
        // Each that is fresh is to be told why it waits.
        left.push_back(job);
        order.Skip();
      } else if (tried == Tried::kKindLeft) {
        order.SkipKind();
      } else {
        order.SkipKindUntilStart();
      }
    }
    // With work left over the flags stay set: NextDeadline asks for the rest.
    if (!order.has_next() && std::exchange(room_changed_, false)) ConcludeSeeking();
  }
  for (const JobEntry* job : placed) {
    Dequeue(*job);
    queue_book_.SetLive(*job);
  }
  for (const JobEntry* job : nominated) {
    Dequeue(*job);
    making_room_.insert(OrderOf(*job));
    queue_book_.SetLive(*job);
  }
  for (const JobEntry* job : left) {
    fresh_.erase(OrderOf(*job));
    queue_book_.SetTried(*job);
  }
  if (!room_changed_) SettleHeld();
}

bool SchedulerCore::IsLeftUnseen(const QueueOrder& order, const RoundWork& work) const {
  const QueuedGang gang = order.next_gang();
  if (gang.kind.fresh || config_.visit_all || !model_.capacity_orders.empty()) return false;
  const QueueBook::KindTerms& terms = queue_book_.TermsOf(gang);
  const bool is_room_kept = !reserved_.empty() || work.reserve_attempts >= kMaxReserveAttempts;
  return terms.lacks_room && !terms.asks_for_mig && is_room_kept &&
         work.unfit_shapes.contains(terms.shape) && !MayAskForVictims(order, work) &&
         queue_book_.UidOf(gang) != reserved_ && queue_book_.MayStartByRate(order) &&
         !queue_book_.Refusal(order, work.capacity).has_value();
}

const SchedulerCore::Asked& SchedulerCore::AskedBy(const QueueOrder& order, const JobEntry& job) {
  // Which orders of capacity it may have is of each Job.
  const bool is_alike = model_.capacity_orders.empty();
  const uint64_t kind = is_alike ? queue_book_.TermsOf(order.next_gang()).number : 0;
  if (asked_.size() >= kMostAsked && !asked_.contains(kind)) asked_.clear();
  std::unique_ptr<Asked>& asked = asked_[kind];
  if (!is_alike || asked == nullptr) {
    asked = std::make_unique<Asked>();
    asked->request = RequestOf(job);
    asked->request.kind = kind;
    asked->shape = asked->request.Shape();
  }
  return *asked;
}

// What is said of a whole kind holds until the round ends because room only shrinks, use of Queues
// and of rates only grows, and who may end for whom, once asked in vain, is not asked again.
SchedulerCore::Tried SchedulerCore::TryNext(const QueueOrder& order, JobEntry* job,
                                            RoundWork* work) {
  bool told = false;
  if (WaitsForRate(job, &told)) return told ? Tried::kLeft : Tried::kKindLeft;
  if (const auto limit = queue_book_.Refusal(order, work->capacity)) {
    if (MayAskForVictims(order, *work) && TryMakeRoom(order, job, RequestOf(*job), work)) {
      return Tried::kMakesRoom;
    }
    if (SetState(job, Job::STATE_QUEUED, "QUEUE_LIMIT", limit->words)) return Tried::kLeft;
    return limit->lasts ? Tried::kKindLeft : Tried::kKindLeftUntilStart;
  }
  const Asked& asked = AskedBy(order, *job);
  const GangRequest& request = asked.request;
  const std::string openings = work->placing->Openings(request);
  const std::string shape = absl::StrCat(asked.shape, openings);
  const bool is_reserved = reserved_ == job->uid();
  const bool bound = !is_reserved && work->placing->IsBound(request);
  if (!is_reserved && work->unfit.count(shape) == 0 &&
      (!bound || work->unfit_bound.count(shape) == 0)) {
    const auto placement = work->placing->Place(request, [&](const Amounts& more) {
      return queue_book_.MayUse(order, work->capacity, more);
    });
    if (placement.has_value()) {
      PlaceIn(job, request, *placement, work);
      return Tried::kPlaced;
    }
    const bool only_bound = bound && work->placing->FitsUnbound(request);
    (only_bound ? work->unfit_bound : work->unfit).insert(shape);
    if (!only_bound && openings.empty()) {
      work->unfit_shapes.insert(queue_book_.TermsOf(order.next_gang()).shape);
    }
  }
  // Who is moved loses no more than work; who is ended loses its place too.
  if (AsksForMig(job->spec.spec()) && (is_reserved || work->unfit.count(shape) > 0) &&
      TryRepartition(order, job, request, work)) {
    return Tried::kMakesRoom;
  }
  if (MayAskForVictims(order, *work) && TryMakeRoom(order, job, request, work)) {
    return Tried::kMakesRoom;
  }
  const bool only_bound = !is_reserved && work->unfit.count(shape) == 0;
  if (!only_bound && reserved_.empty() && work->reserve_attempts < kMaxReserveAttempts &&
      hopeless_.count(asked.shape) == 0 && work->unreservable.count(asked.shape) == 0) {
    TryReserve(job, request, work);
  }
  if (Nominate(job)) return Tried::kLeft;
  // Whose place is kept says nothing of others.
  const Tried left = is_reserved ? Tried::kLeft : Tried::kKindLeft;
  const std::string& reason = job->state.reason();
  if (only_bound ? reason == "RESERVED" : SaysNoRoom(reason)) return left;
  if (!MayRevise(*job, work)) return work->revisions < kMaxRevisions ? Tried::kLeft : left;
  if (only_bound) {
    SetState(job, Job::STATE_QUEUED, "RESERVED", kReserved);
    return Tried::kLeft;
  }
  std::string kind = shape;
  for (const auto& group : job->spec.spec().task_groups()) {
    absl::StrAppend(&kind, "|", group.name());
  }
  std::string& words = work->words[kind];
  if (words.empty()) words = RoomInWords(*job, work->standings);
  SetState(job, Job::STATE_QUEUED, "INSUFFICIENT_RESOURCES", words);
  return Tried::kLeft;
}

bool SchedulerCore::MayRevise(const JobEntry& job, RoundWork* work) const {
  const std::string& reason = job.state.reason();
  if (reason != "RESERVED" && reason != "INSUFFICIENT_RESOURCES") return true;
  if (queue_book_.waiting() <= kAllRevised) return true;
  if (work->revisions == kMaxRevisions) return false;
  if (now_.wall - ToTime(job.state.update_time()) < kReasonHolds) {
    if (++work->revisions_put_off == kMaxPutOff) work->revisions = kMaxRevisions;
    return false;
  }
  ++work->revisions;
  return true;
}

bool SchedulerCore::MayAskForVictims(const QueueOrder& order, const RoundWork& work) const {
  // Whoever doubts what it sees ends nothing.
  return !leases_.frozen() && work.victim_searches < kMaxVictimSearches &&
         work.victim_questions < kMaxVictimQuestions &&
         work.unhelped.count(AskerOf(order, order.next_gang().kind.priority)) == 0;
}

bool SchedulerCore::StaysBehindReserved(const JobEntry& job, const GangRequest& request,
                                        const RoundWork& work) const {
  if (reserved_.empty() || reserved_ == job.uid() || !work.placing->IsBound(request)) return false;
  const JobEntry* reserved = model_.FindJob(reserved_);
  return reserved != nullptr && reserved->spec.spec().queue() == job.spec.spec().queue() &&
         OrderOf(*reserved) < OrderOf(job);
}

bool SchedulerCore::TryMakeRoom(const QueueOrder& order, JobEntry* job, const GangRequest& request,
                                RoundWork* work) {
  // Above nobody of its Queue.
  const int32_t standing = StaysBehindReserved(*job, request, *work)
                               ? std::numeric_limits<int32_t>::min()
                               : job->spec.spec().priority();
  const auto kind = std::make_tuple(absl::StrCat(request.Shape(), work->placing->Openings(request)),
                                    job->spec.spec().queue(), standing);
  const Asker asker = AskerOf(order, standing);
  if (work->vain.count(kind) > 0 || work->unhelped.count(asker) > 0) return false;
  ++work->victim_questions;
  QueueVictims rules = queue_book_.VictimsFor(order, standing, work->capacity, work->free,
                                              work->victims, work->ended);
  bool any = false;
  for (size_t i = 0; i < work->held.size(); ++i) {
    const HeldGang& gang = work->held[i];
    if (gang.ending || !rules.MayEvict(static_cast<int>(i))) continue;
    any = any || gang.preemptible;
    if (gang.preemptible) continue;
    const JobEntry& other = *model_.FindJob(gang.uid);
    const absl::Duration left =
        std::max(MinRuntime(other) - RanFor(other), ProtectedByBudget(model_, other, now_.wall));
    if (left > absl::ZeroDuration() &&
        other.spec.spec().preemption() != JobSpec::PREEMPTION_NEVER &&
        other.gang->head.phase() == GangHeadRecord::PHASE_STARTED) {
      protected_until_ = std::min(protected_until_, now_.boot + left);
    }
  }
  if (!any) {
    work->unhelped.insert(asker);
    return false;
  }
  // What others leave anyway may be enough.
  if (rules.MayStart() && work->placing->FitsAfterEnding(request)) {
    work->vain.insert(kind);
    return false;
  }
  ++work->victim_searches;
  const std::vector<Victim> victims =
      work->placing->FindVictims(request, job->spec.spec().priority(), &rules);
  if (victims.empty()) {
    work->vain.insert(kind);
    return false;
  }
  EndFor(job, victims, work);
  return true;
}

void SchedulerCore::EndFor(JobEntry* job, const std::vector<Victim>& victims, RoundWork* work) {
  struct Part {
    // It only gives up what it has beyond its least.
    bool shrinks = true;
    rec::JobStateRecord::Need need;
  };
  std::map<int, Part> gangs;  // by position of the gang
  for (const auto& [at, need] : victims) {
    // With the rest of it all of a gang ends, whichever of the two is named first.
    const bool is_spare = work->held[at].is_spare;
    Part& gang = gangs[is_spare ? at - 1 : at];
    gang.shrinks = gang.shrinks && is_spare;
    gang.need = StrongerOf(NeedRecordOf(need), gang.need);
  }
  const auto shrinking = std::count_if(gangs.begin(), gangs.end(),
                                       [](const auto& gang) { return gang.second.shrinks; });
  const auto ending = static_cast<ptrdiff_t>(gangs.size()) - shrinking;
  std::vector<std::string> words;
  const auto say = [&words](ptrdiff_t count, absl::string_view what) {
    if (count == 0) return;
    words.push_back(absl::StrCat(count, count == 1 ? " Job is " : " Jobs are ", what));
  };
  say(ending, "being ended");
  say(shrinking, "giving up Tasks");
  SetState(job, Job::STATE_QUEUED, "MAKING_ROOM",
           absl::StrCat(absl::StrJoin(words, " and "), " to make room for it"));
  decisions_.push_back(job->uid());
  for (const auto& [at, gang] : gangs) {
    JobEntry* victim = FindJob(work->held[at].uid);
    const int spare = work->victims[at].spare;
    if (spare >= 0) work->ended.push_back(work->victims[spare]);
    if (!gang.shrinks) work->ended.push_back(work->victims[at]);
    held_book_.SetChanged(*victim);
    // Neither is asked again in this round.
    work->victims[at].leaf = -1;
    if (spare >= 0) work->victims[spare].leaf = -1;
    rec::JobStateRecord::Victim& record = *job->state.add_making_room();
    record.set_job_uid(victim->uid());
    record.set_generation(victim->gang->head.generation());
    record.set_shrinks(gang.shrinks);
    *record.mutable_need() = gang.need;
    EndForOther(victim, record, *job);
  }
}

void SchedulerCore::ResumeMakingRoom() {
  for (const OrderKey& key : making_room_) {
    const JobEntry& beneficiary = *FindJob(std::get<2>(key));
    for (const auto& record : beneficiary.state.making_room()) {
      JobEntry* victim = FindJob(record.job_uid());
      if (victim == nullptr || !victim->live() ||
          victim->gang->head.generation() != record.generation() ||
          victim->gang->head.phase() == GangHeadRecord::PHASE_STOPPING) {
        continue;
      }
      if (record.has_move()) {
        MoveGang(victim, record.move(), beneficiary.spec.name());
        continue;
      }
      EndForOther(victim, record, beneficiary);
    }
  }
}

void SchedulerCore::EndForOther(JobEntry* victim, const rec::JobStateRecord::Victim& record,
                                const JobEntry& beneficiary) {
  if (record.shrinks()) {
    ++tally_.shrunk;
  } else if (victim->spec.spec().queue() == beneficiary.spec.spec().queue()) {
    ++tally_.preempted_by_priority;
  } else {
    ++tally_.preempted_by_guarantee;
  }
  StopGang(victim, record.shrinks() ? Stop::REASON_SHRUNK : Stop::REASON_PREEMPTED,
           beneficiary.spec.name(), NeedInWords(record.need(), beneficiary));
}

}  // namespace capstan::scheduler
