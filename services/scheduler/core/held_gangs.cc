#include "services/scheduler/core/held_gangs.h"

#include <algorithm>
#include <map>
#include <utility>

#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::JobSpec;
using rec::GangHeadRecord;

HeldTerms HeldTerms::Of(const JobEntry& job) {
  const JobSpec& spec = job.spec.spec();
  HeldTerms terms;
  terms.priority = spec.priority();
  terms.phase = job.gang->head.phase();
  terms.grace = ToDuration(spec.stop_grace());
  terms.preemptible = spec.preemption() != JobSpec::PREEMPTION_NEVER;
  if (spec.has_time_limit()) terms.longest_run = LongestRun(spec);
  if (spec.has_checkpoint_period()) terms.checkpoint_period = ToDuration(spec.checkpoint_period());
  return terms;
}

void SetStanding(const HeldTerms& terms, const HeldFacts& facts, HeldGang* gang) {
  gang->priority = terms.priority;
  gang->grace = terms.grace;
  gang->ending = terms.phase == GangHeadRecord::PHASE_STOPPING && !facts.comes_back;
  gang->preemptible = terms.preemptible && !facts.any_silent && !facts.comes_back;
  gang->left_is_assumed = !terms.longest_run.has_value();
  if (gang->ending) {
    gang->left = gang->grace;
    gang->left_is_assumed = facts.any_silent;
  } else {
    const bool preparing = facts.comes_back || terms.phase == GangHeadRecord::PHASE_PREPARING;
    gang->left = terms.longest_run.value_or(kAssumedRun) +
                 (preparing ? kPrepareAllowance : absl::ZeroDuration()) +
                 (facts.comes_back ? gang->grace : -facts.ran);
    if (gang->left <= absl::ZeroDuration()) {
      gang->left = std::max(facts.ran, absl::Seconds(1));
      gang->left_is_assumed = true;
    }
    if (facts.evicted_in + gang->grace < gang->left) {
      gang->left = facts.evicted_in + gang->grace;
      gang->left_is_assumed = facts.any_silent;
    }
  }
  gang->unsaved = terms.checkpoint_period.has_value()
                      ? std::min(facts.ran, *terms.checkpoint_period)
                      : facts.ran;
}

HeldGang HeldGangOf(const JobEntry& job, const HeldFacts& facts) {
  HeldGang gang;
  gang.uid = job.uid();
  SetStanding(HeldTerms::Of(job), facts, &gang);
  return gang;
}

void SplitHeld(const JobEntry& job, HeldGang gang,
               absl::FunctionRef<int(const NodeId& id)> position_of, std::vector<HeldGang>* all) {
  const bool shrinking = IsShrinking(job);
  const int tasks = static_cast<int>(job.gang->tasks.size());
  // One that is held would not start again with fewer.
  if ((gang.ending && !shrinking) || IsGrowing(job) || job.state.hold() ||
      tasks == MinTaskCount(job.spec.spec())) {
    all->push_back(std::move(gang));
    return;
  }
  std::map<int, Amounts> spares;
  for (int rank = 0; rank < tasks; ++rank) {
    if (job.gang->ended(rank) || !IsSpare(job, rank)) continue;
    const int at = position_of(job.gang->node(rank));
    if (at >= 0) spares[at].Add(AmountsOf(job, rank));
  }
  HeldGang spare = gang;
  spare.is_spare = true;
  spare.shares.assign(spares.begin(), spares.end());
  std::vector<std::pair<int, Amounts>> shares = std::exchange(gang.shares, {});
  for (auto& [at, amounts] : shares) {
    const auto less = spares.find(at);
    if (less != spares.end()) amounts.Subtract(less->second);
    if (amounts != Amounts()) gang.shares.emplace_back(at, std::move(amounts));
  }
  if (shrinking) {
    // It comes back.
    gang.ending = false;
    gang.preemptible = false;
    gang.left = job.spec.spec().has_time_limit() ? LongestRun(job.spec.spec()) : kAssumedRun;
    gang.left += kPrepareAllowance;
    gang.left_is_assumed = !job.spec.spec().has_time_limit();
  }
  all->push_back(std::move(gang));
  if (!spare.shares.empty()) all->push_back(std::move(spare));
}

}  // namespace capstan::scheduler
