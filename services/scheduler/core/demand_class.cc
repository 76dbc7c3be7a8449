#include "services/scheduler/core/demand_class.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/digest/sha256.h"
#include "services/scheduler/core/node_terms.h"
#include "services/scheduler/core/optional_parts.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::TaskGroup;

namespace {

// The lowest priority of the band that the priority is in.
int BandOf(int priority) {
  const int offset = priority % kPriorityBand;
  return priority - (offset < 0 ? offset + kPriorityBand : offset);
}

// Equal for groups whose Tasks need the same.
std::string ShapeKey(const JobSpec& spec, const TaskGroup& group) {
  const auto& resources = group.resources();
  std::string key = absl::StrCat(RequiredOf(spec, group), ",", resources.cpu_millis(), ",",
                                 resources.memory_bytes());
  // A map's own order is none.
  const std::map<std::string, int64_t> accelerators(resources.accelerators().begin(),
                                                    resources.accelerators().end());
  for (const auto& [name, count] : accelerators) {
    if (count != 0) absl::StrAppend(&key, ",", name, "=", count);
  }
  if (resources.has_mig()) {
    absl::StrAppend(&key, ",#", resources.mig().model(), "#", resources.mig().profile());
  }
  for (const auto& slice : group.slices()) {
    absl::StrAppend(&key, "/", slice.level(), "x", slice.size());
  }
  absl::StrAppend(&key, KeyOf(group.node_requirements()));
  return key;
}

}  // namespace

DemandNeed DemandNeed::Of(const JobEntry& job) {
  const auto& spec = job.spec.spec();
  DemandNeed need;
  need.clusters.assign(spec.clusters().begin(), spec.clusters().end());
  if (!job.state.data_cluster().empty()) need.clusters = {job.state.data_cluster()};
  std::sort(need.clusters.begin(), need.clusters.end());
  need.clusters.erase(std::unique(need.clusters.begin(), need.clusters.end()), need.clusters.end());
  need.min_priority = BandOf(spec.priority());
  struct Group {
    std::string shape;
    const TaskGroup* group;
    int least;
  };
  std::vector<Group> groups;
  groups.reserve(spec.task_groups_size());
  const std::vector<int> least = MinSizes(spec);
  for (int g = 0; g < spec.task_groups_size(); ++g) {
    if (least[g] == 0) continue;
    groups.push_back({ShapeKey(spec, spec.task_groups(g)), &spec.task_groups(g), least[g]});
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.shape < b.shape; });
  need.key = absl::StrCat(spec.queue(), "|", need.min_priority, "|", spec.topology().required());
  for (const std::string& cluster : need.clusters) absl::StrAppend(&need.key, "|", cluster);
  absl::StrAppend(&need.key, KeyOf(spec.node_requirements()), KeyOf(spec.tolerations()));
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i == 0 || groups[i].shape != groups[i - 1].shape) {
      absl::StrAppend(&need.key, ";", groups[i].shape);
      need.shapes.push_back(groups[i].group);
      need.tasks.push_back(0);
    }
    need.tasks.back() += groups[i].least;
  }
  return need;
}

std::string DemandClassId(absl::string_view key) {
  return absl::BytesToHexString(Sha256::Of(key).substr(0, 8));
}

}  // namespace capstan::scheduler
