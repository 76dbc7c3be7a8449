#include "services/scheduler/core/label_check.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::NodeRequirement;

std::vector<NodeRequirement> RequirementsOf(const JobEntry& job, int rank) {
  const auto& spec = job.spec.spec();
  const auto& group = spec.task_groups(GroupOf(job, rank).first);
  std::vector<NodeRequirement> all(spec.node_requirements().begin(),
                                   spec.node_requirements().end());
  all.insert(all.end(), group.node_requirements().begin(), group.node_requirements().end());
  return all;
}

absl::Status CheckLabels(const std::vector<NodeRequirement>& requirements,
                         const capstan::type::v1::NodeObservation& node) {
  for (const NodeRequirement& one : requirements) {
    const auto label = node.labels().find(one.key());
    const bool is_there = label != node.labels().end();
    const bool is_named =
        is_there && std::count(one.values().begin(), one.values().end(), label->second) > 0;
    const std::map<NodeRequirement::Operator, bool> met = {
        {NodeRequirement::OPERATOR_IN, is_named},
        {NodeRequirement::OPERATOR_NOT_IN, !is_named},
        {NodeRequirement::OPERATOR_EXISTS, is_there},
        {NodeRequirement::OPERATOR_DOES_NOT_EXIST, !is_there}};
    const auto is_met = met.find(one.operator_());
    if (is_met != met.end() && is_met->second) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("its label ", one.key(), " is not as required: ", one.ShortDebugString()));
  }
  return absl::OkStatus();
}

}  // namespace capstan::scheduler
