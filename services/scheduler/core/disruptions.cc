#include "services/scheduler/core/disruptions.h"

#include <algorithm>

#include "libs/time/proto_time.h"
#include "services/scheduler/core/queue_book.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Disruption;
using capstan::scheduler::v1::DisruptionBudget;
using capstan::scheduler::v1::Queue;
using capstan::type::v1::Stop;

namespace {

const char* NameOf(Stop::Reason reason) {
  switch (reason) {
    case Stop::REASON_PREEMPTED:
      return "PREEMPTED";
    case Stop::REASON_SHRUNK:
      return "SHRUNK";
    case Stop::REASON_DRAINED:
      return "QUEUE_DRAINED";
    case Stop::REASON_MAINTENANCE:
      return "MAINTENANCE";
    default:
      return nullptr;
  }
}

}  // namespace

bool IsDisruption(Stop::Reason reason) { return NameOf(reason) != nullptr; }

void AddDisruption(Stop::Reason reason, const std::string& beneficiary, const std::string& need,
                   absl::Time now, rec::JobStateRecord* state) {
  AddDisruption(std::string(NameOf(reason)), beneficiary, need, now, state);
}

void AddDisruption(const std::string& reason, const std::string& beneficiary,
                   const std::string& need, absl::Time now, rec::JobStateRecord* state) {
  auto& all = *state->mutable_disruptions();
  if (all.size() >= kMaxDisruptions) all.DeleteSubrange(0, all.size() - kMaxDisruptions + 1);
  Disruption& one = *all.Add();
  *one.mutable_time() = ToProto(now);
  one.set_reason(reason);
  one.set_beneficiary(beneficiary);
  one.set_need(need);
}

absl::Duration MinRuntimeOf(const Model& model, const JobEntry& job, absl::Duration otherwise) {
  const Queue* const queue =
      NearestQueue(model, job, [](const Queue& says) { return says.has_min_runtime(); });
  return queue == nullptr ? otherwise : ToDuration(queue->min_runtime());
}

absl::Duration ProtectedByBudget(const Model& model, const JobEntry& job, absl::Time now) {
  const auto& all = job.state.disruptions();
  if (all.empty()) return absl::ZeroDuration();
  const Queue* const queue =
      NearestQueue(model, job, [](const Queue& says) { return says.has_disruption_budget(); });
  if (queue == nullptr) return absl::ZeroDuration();
  const DisruptionBudget& budget = queue->disruption_budget();
  if (all.size() < budget.count()) return absl::ZeroDuration();
  // Once this one is too old fewer than `count` are left. The clock may have been set back since.
  const absl::Time oldest = ToTime(all[all.size() - budget.count()].time());
  return std::max(std::min(oldest, now) + ToDuration(budget.period()) - now, absl::ZeroDuration());
}

}  // namespace capstan::scheduler
