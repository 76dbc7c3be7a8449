#include "services/scheduler/core/node_refusals.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/scheduler/core/node_terms.h"
#include "services/scheduler/core/placement.h"

namespace capstan::scheduler {
namespace {

constexpr char kRequirements[] = "node_requirements";

NodeRefusals::One Unmet(const capstan::scheduler::v1::NodeRequirement& requirement,
                        absl::string_view asked_by) {
  const std::string what = absl::StrCat(" not meet ", InWords(requirement), asked_by);
  return {kRequirements, absl::StrCat("does", what), absl::StrCat("do", what), {}};
}

}  // namespace

bool NodeRefusals::Count(const NodeCapacity& node, const GangRequest& gang) {
  if (const int unmet = FirstUnmet(node, gang.node_requirements); unmet >= 0) {
    const auto one = gang_.try_emplace(unmet, Unmet(gang.node_requirements[unmet], "")).first;
    one->second.nodes.push_back(node.id);
    return true;
  }
  if (const auto* taint = FirstUntolerated(node, gang); taint != nullptr) {
    taints_[InWords(*taint)].push_back(node.id);
    return true;
  }
  return false;
}

void NodeRefusals::CountOf(const PartialFit& fit, const capstan::scheduler::v1::JobSpec& spec,
                           const GangRequest& gang) {
  const std::string asked_by =
      absl::StrCat(", which TaskGroup ", spec.task_groups(fit.group).name(), " asks for");
  for (const auto& [at, nodes] : fit.unmet) {
    One one = Unmet(gang.groups[fit.group].node_requirements[at], asked_by);
    one.nodes = nodes;
    group_.insert_or_assign(at, std::move(one));
  }
}

std::vector<NodeRefusals::One> NodeRefusals::all() const {
  std::vector<One> all;
  for (const auto& [at, one] : gang_) all.push_back(one);
  for (const auto& [at, one] : group_) all.push_back(one);
  One others = {"taint",
                "has another taint that the Job does not tolerate",
                "have other taints that the Job does not tolerate",
                {}};
  size_t named = 0;
  for (const auto& [taint, nodes] : taints_) {
    if (named++ < kMaxTaintsNamed) {
      const std::string what =
          absl::StrCat(" the taint ", taint, ", which the Job does not tolerate");
      all.push_back({"taint", absl::StrCat("has", what), absl::StrCat("have", what), nodes});
    } else {
      others.nodes.insert(others.nodes.end(), nodes.begin(), nodes.end());
    }
  }
  if (!others.nodes.empty()) all.push_back(std::move(others));
  return all;
}

}  // namespace capstan::scheduler
