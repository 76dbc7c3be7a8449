// Gangs that run with fewer Tasks than they ask for, and grow into room that nobody wants.
//
// Tasks learn at START how many they are, so a gang that grows is stopped and starts again. That it
// does not do so for ever:
//
// - Each growth is after a START by at least the Job's grow_after, and no less than the period of
//   its checkpoints: what it does again is a bounded part of what it does.
// - It brings at least an eighth more Tasks. While nobody comes, sizes only rise, so growths end.
// - A gang gives up Tasks only for a Job that then has the room; so between two growths to one size
//   somebody came and went, and the room was spare for a while after that.
#include <algorithm>
#include <utility>
#include <vector>

#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_round.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

using capstan::type::v1::Stop;
using rec::GangHeadRecord;

namespace {

// Between two looks; room that was taken and given back in between was not missed.
constexpr absl::Duration kGrowthPeriod = absl::Seconds(10);
// Gangs looked at at once: what is left is in the next look.
constexpr int kMaxGrowthTries = 64;
// A gang grows by at least this part of its Tasks.
constexpr int kLeastGainPart = 8;

}  // namespace

bool SchedulerCore::MayGrow(const JobEntry& job) {
  return job.live() && !job.state.hold() && job.spec.spec().has_grow_after() &&
         job.gang->head.phase() == GangHeadRecord::PHASE_STARTED &&
         static_cast<int>(job.gang->tasks.size()) < MaxTaskCount(job.spec.spec());
}

void SchedulerCore::WatchGrowth(const JobEntry& job) {
  if (!MayGrow(job)) return;
  growers_.insert(OrderOf(job));
  growth_at_ =
      std::min(growth_at_, started_at_.at(job.uid()) + ToDuration(job.spec.spec().grow_after()));
}

void SchedulerCore::ForgetGrowth(const JobEntry& job) {
  growers_.erase(OrderOf(job));
  spare_since_.erase(job.uid());
}

void SchedulerCore::ArmGrowth() {
  if (growers_.empty()) return;
  growth_at_ = std::min(growth_at_, std::max(now_.boot, growth_seen_at_ + kGrowthPeriod));
}

void SchedulerCore::GrowGangs(RoundWork* work) {
  growth_seen_at_ = now_.boot;
  growth_at_ = BootTime::InfiniteFuture();
  // Whoever doubts what it sees ends nothing; and who waits for a rate wants what is free.
  if (leases_.frozen() || start_rate_at_ != BootTime::InfiniteFuture()) {
    spare_since_.clear();
    growth_at_ = now_.boot + kGrowthPeriod;
    return;
  }
  std::vector<OrderKey> order(growers_.begin(), growers_.end());
  if (next_grower_.has_value()) {
    std::rotate(order.begin(), std::lower_bound(order.begin(), order.end(), *next_grower_),
                order.end());
    next_grower_.reset();
  }
  int tries = 0;
  for (const OrderKey& key : order) {
    JobEntry* job = FindJob(std::get<2>(key));
    const BootTime may_at = started_at_.at(job->uid()) + ToDuration(job->spec.spec().grow_after());
    if (now_.boot < may_at) {
      growth_at_ = std::min(growth_at_, may_at);
      continue;
    }
    if (tries++ == kMaxGrowthTries || StepFull()) {
      next_grower_ = key;
      growth_at_ = std::min(growth_at_, now_.boot + kGrowthPeriod);
      return;
    }
    const std::vector<MoreTasks> more = FindGrowth(*job, work);
    if (more.empty()) {
      spare_since_.erase(job->uid());
      continue;
    }
    const BootTime since = spare_since_.emplace(job->uid(), now_.boot).first->second;
    if (now_.boot < since + config_.spare_for) {
      growth_at_ = std::min({growth_at_, now_.boot + kGrowthPeriod, since + config_.spare_for});
      continue;
    }
    for (const MoreTasks& one : more) {
      GangHeadRecord::Addition& addition = *job->gang->head.add_additions();
      addition.set_group(one.group);
      addition.set_node(work->nodes[one.node].id.node);
      addition.set_count(one.count);
      if (one.mig.has_value()) *addition.mutable_mig() = PlaceOf(*one.mig);
    }
    StopGang(job, Stop::REASON_GROWN);
    // The next one is asked with what this one takes.
    queue_book_.SetLive(*job);
  }
}

std::vector<MoreTasks> SchedulerCore::FindGrowth(const JobEntry& job, RoundWork* work) const {
  // Its new generation may run longer than what is declared of this one, and somebody counts on
  // that.
  if (!reserved_.empty() && job.spec.spec().has_time_limit()) return {};
  // It would have what somebody of higher standing in its Queue waits for.
  if (queue_book_.IsOutranked(job)) return {};
  GangRequest request = RequestOf(job);
  request.clusters = {job.gang->head.cluster()};
  // It begins again once all that runs has ended.
  request.duration += ToDuration(job.spec.spec().stop_grace());
  GangPlacement has;
  const int tasks = static_cast<int>(job.gang->tasks.size());
  for (int rank = 0; rank < tasks; ++rank) {
    // What has done its work would do it again; and it has to come back to where it is.
    const int at = job.gang->ended(rank) ? -1 : work->PositionOf(job.gang->node(rank));
    if (at < 0 || !Admits(work->nodes[at], request, GroupOf(job, rank).first)) return {};
    has.nodes.push_back(at);
    if (AsksForMig(job.spec.spec())) has.mig.push_back(SpotOf(job, rank));
  }
  for (int group = 0; group < job.spec.spec().task_groups_size(); ++group) {
    has.sizes.push_back(SizeOf(job, group));
  }
  const int least = (tasks + kLeastGainPart - 1) / kLeastGainPart;
  return work->placing->Grow(request, has, least, [&](const Amounts& more) {
    return queue_book_.MayGrow(job, work->capacity, more);
  });
}

}  // namespace capstan::scheduler
