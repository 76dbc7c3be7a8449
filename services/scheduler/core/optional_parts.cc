#include "services/scheduler/core/optional_parts.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

namespace capstan::scheduler {

using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Section;
using capstan::scheduler::v1::TaskGroup;

namespace {

bool HasParts(const JobSpec& spec) {
  return spec.min_sections() > 0 ||
         std::any_of(spec.sections().begin(), spec.sections().end(),
                     [](const Section& section) { return section.min_sections() > 0; });
}

}  // namespace

std::vector<OptionalPart> OptionalParts(const JobSpec& spec) {
  std::vector<OptionalPart> parts;
  if (!HasParts(spec)) return parts;
  std::map<std::string, int> positions;
  // By position of a parent and, first, of the Job: sections in it so far.
  std::vector<int> inner(spec.sections_size() + 1, 0);
  // By section: the part that it is, or lies in; -1: none.
  std::vector<int> part(spec.sections_size(), -1);
  for (int s = 0; s < spec.sections_size(); ++s) {
    const auto found = positions.find(spec.sections(s).parent());
    const int parent = found == positions.end() ? -1 : found->second;
    const int least = parent < 0 ? spec.min_sections() : spec.sections(parent).min_sections();
    if (parent >= 0) part[s] = part[parent];
    if (++inner[parent + 1] > least && least > 0) {
      parts.push_back({s, part[s], {}});
      part[s] = static_cast<int>(parts.size()) - 1;
    }
    positions.emplace(spec.sections(s).name(), s);
  }
  for (int g = 0; g < spec.task_groups_size(); ++g) {
    const auto section = positions.find(spec.task_groups(g).section());
    if (section == positions.end() || part[section->second] < 0) continue;
    parts[part[section->second]].groups.push_back(g);
  }
  return parts;
}

int MinReplicas(const TaskGroup& group) {
  return group.min_replicas() == 0 ? group.replicas() : group.min_replicas();
}

bool IsOptional(const JobSpec& spec, int group) {
  if (!HasParts(spec)) return false;
  const std::vector<OptionalPart> parts = OptionalParts(spec);
  return std::any_of(parts.begin(), parts.end(), [group](const OptionalPart& part) {
    return std::find(part.groups.begin(), part.groups.end(), group) != part.groups.end();
  });
}

std::vector<int> MinSizes(const JobSpec& spec) {
  std::vector<int> sizes;
  sizes.reserve(spec.task_groups_size());
  for (const TaskGroup& group : spec.task_groups()) sizes.push_back(MinReplicas(group));
  for (const OptionalPart& part : OptionalParts(spec)) {
    for (const int g : part.groups) sizes[g] = 0;
  }
  return sizes;
}

bool HasWholeParts(const JobSpec& spec, const std::vector<int>& sizes) {
  const std::vector<OptionalPart> parts = OptionalParts(spec);
  std::vector<bool> is_optional(sizes.size(), false);
  std::vector<bool> is_there(parts.size(), false);
  const auto has_least = [&](int g) { return sizes[g] >= MinReplicas(spec.task_groups(g)); };
  for (size_t p = 0; p < parts.size(); ++p) {
    const std::vector<int>& groups = parts[p].groups;
    for (const int g : groups) is_optional[g] = true;
    is_there[p] = std::any_of(groups.begin(), groups.end(), [&](int g) { return sizes[g] > 0; });
    if (!is_there[p]) continue;
    if (!std::all_of(groups.begin(), groups.end(), has_least)) return false;
    if (parts[p].within >= 0 && !is_there[parts[p].within]) return false;
  }
  for (size_t g = 0; g < sizes.size(); ++g) {
    if (!is_optional[g] && !has_least(static_cast<int>(g))) return false;
  }
  return true;
}

}  // namespace capstan::scheduler
