#include "services/scheduler/core/disruptions.h"

#include <algorithm>

#include "absl/strings/strip.h"
#include "libs/time/proto_time.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Disruption;
using capstan::scheduler::v1::DisruptionBudget;
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

// Of the nearest Queue that says anything; null: none does.
const DisruptionBudget* BudgetOf(const Model& model, const JobEntry& job) {
  std::string id(absl::StripPrefix(job.spec.spec().queue(), "queues/"));
  for (auto queue = model.queues.find(id); queue != model.queues.end();
       queue = model.queues.find(id)) {
    if (queue->second.queue().has_disruption_budget()) {
      return &queue->second.queue().disruption_budget();
    }
    id = std::string(absl::StripPrefix(queue->second.queue().parent(), "queues/"));
  }
  return nullptr;
}

}  // namespace

bool IsDisruption(Stop::Reason reason) { return NameOf(reason) != nullptr; }

void AddDisruption(Stop::Reason reason, const std::string& beneficiary, absl::Time now,
                   rec::JobStateRecord* state) {
  auto& all = *state->mutable_disruptions();
  if (all.size() >= kMaxDisruptions) all.DeleteSubrange(0, all.size() - kMaxDisruptions + 1);
  Disruption& one = *all.Add();
  *one.mutable_time() = ToProto(now);
  one.set_reason(NameOf(reason));
  one.set_beneficiary(beneficiary);
}

absl::Duration ProtectedByBudget(const Model& model, const JobEntry& job, absl::Time now) {
  const auto& all = job.state.disruptions();
  if (all.empty()) return absl::ZeroDuration();
  const DisruptionBudget* budget = BudgetOf(model, job);
  if (budget == nullptr || all.size() < budget->count()) return absl::ZeroDuration();
  // Once this one is too old fewer than `count` are left. The clock may have been set back since.
  const absl::Time oldest = ToTime(all[all.size() - budget->count()].time());
  return std::max(std::min(oldest, now) + ToDuration(budget->period()) - now, absl::ZeroDuration());
}

}  // namespace capstan::scheduler
