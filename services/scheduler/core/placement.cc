#include "services/scheduler/core/placement.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/optional_parts.h"
#include "services/scheduler/core/topology_levels.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Topology;

namespace {

// The section of that name among the first `count`; -1 if there is none.
int SectionOf(const capstan::scheduler::v1::JobSpec& spec, absl::string_view name, int count) {
  for (int s = 0; s < count; ++s) {
    if (spec.sections(s).name() == name) return s;
  }
  return -1;
}

}  // namespace

GangRequest GangRequest::From(const JobEntry& job) {
  GangRequest request;
  const capstan::scheduler::v1::JobSpec& spec = job.spec.spec();
  for (int s = 0; s < spec.sections_size(); ++s) {
    request.sections.push_back(
        {SectionOf(spec, spec.sections(s).parent(), s), spec.sections(s).topology()});
  }
  request.parts = OptionalParts(spec);
  const std::vector<int> sizes = MinSizes(spec);
  for (int g = 0; g < spec.task_groups_size(); ++g) {
    const capstan::scheduler::v1::TaskGroup& group = spec.task_groups(g);
    request.groups.push_back({sizes[g], Amounts::From(group.resources()), group.topology(),
                              group.replicas() - sizes[g]});
    if (sizes[g] == 0) request.groups.back().least_of_part = MinReplicas(group);
    for (const auto& slice : group.slices()) {
      request.groups.back().slices.push_back({slice.level(), slice.size()});
    }
    request.groups.back().section = SectionOf(spec, group.section(), spec.sections_size());
    request.groups.back().node_requirements = group.node_requirements();
  }
  request.clusters.insert(job.spec.spec().clusters().begin(), job.spec.spec().clusters().end());
  if (!job.state.data_cluster().empty()) request.clusters = {job.state.data_cluster()};
  request.submitter = job.spec.submitter();
  for (const auto& avoided : job.state.avoided_nodes()) {
    request.avoided.insert({avoided.cluster(), avoided.node()});
  }
  request.topology = job.spec.spec().topology();
  request.node_requirements = spec.node_requirements();
  request.tolerations = spec.tolerations();
  if (job.spec.spec().has_time_limit()) {
    request.duration = kPrepareAllowance + LongestRun(job.spec.spec());
  }
  return request;
}

std::string GangRequest::Shape() const {
  std::string shape = absl::StrCat(submitter, "|", topology.required(), "/", topology.preferred());
  for (const std::string& cluster : clusters) absl::StrAppend(&shape, "|", cluster);
  for (const NodeId& id : avoided) absl::StrAppend(&shape, "|!", id.cluster, "/", id.node);
  for (const std::string& order : orders) absl::StrAppend(&shape, "|^", order);
  absl::StrAppend(&shape, KeyOf(node_requirements), KeyOf(tolerations));
  for (const Section& section : sections) {
    absl::StrAppend(&shape, ";(", section.parent, ",", section.topology.required(), "/",
                    section.topology.preferred());
  }
  for (const OptionalPart& part : parts) absl::StrAppend(&shape, "?", part.section);
  for (const Group& group : groups) {
    absl::StrAppend(&shape, ";", group.replicas, ",", group.topology.required(), "/",
                    group.topology.preferred(), ",", group.each.cpu_millis, ",",
                    group.each.memory_bytes);
    for (const auto& [name, count] : group.each.accelerators) {
      absl::StrAppend(&shape, ",", name, "=", count);
    }
    // The model's name is among those.
    if (const auto ask = group.each.mig.ask(); ask) absl::StrAppend(&shape, "#", ask->profile);
    if (group.more > 0) absl::StrAppend(&shape, "+", group.more);
    if (group.least_of_part > 0) absl::StrAppend(&shape, "?", group.least_of_part);
    for (const Slice& slice : group.slices)
      absl::StrAppend(&shape, "/", slice.level, "x", slice.size);
    if (group.section >= 0) absl::StrAppend(&shape, ")", group.section);
    absl::StrAppend(&shape, KeyOf(group.node_requirements));
  }
  return shape;
}

NodeTopology NodeTopology::From(const google::protobuf::Map<std::string, std::string>& labels) {
  const auto value = [&labels](const char* key) {
    const auto found = labels.find(key);
    return found == labels.end() ? std::string() : found->second;
  };
  NodeTopology topology;
  topology.region = value("topology.kubernetes.io/region");
  topology.zone = value("topology.kubernetes.io/zone");
  topology.row = value("capstan.dev/row");
  topology.rail = value("capstan.dev/rail");
  topology.rack = value("capstan.dev/rack");
  topology.nvlink_domain = value("capstan.dev/nvlink-domain");
  if (topology.nvlink_domain.empty()) topology.nvlink_domain = value("nvidia.com/gpu.clique");
  return topology;
}

absl::Duration LongestRun(const capstan::scheduler::v1::JobSpec& spec) {
  if (!spec.has_time_limit()) return absl::InfiniteDuration();
  return ToDuration(spec.time_limit()) + ToDuration(spec.stop_grace());
}

std::string DomainOf(const NodeCapacity& node, Topology::Level level) {
  if (NameOf(node, level).empty()) return "";
  // As the placer takes them: each within those before it.
  std::string domain;
  for (int depth = 0; depth <= DepthOf(level); ++depth) {
    absl::StrAppend(&domain, NameOf(node, kLevelsByWidth[depth]), "/");
  }
  return domain;
}

const std::string& NameOf(const NodeCapacity& node, Topology::Level level) {
  switch (level) {
    case Topology::LEVEL_REGION:
      return node.topology.region;
    case Topology::LEVEL_ZONE:
      return node.topology.zone;
    case Topology::LEVEL_ROW:
      return node.topology.row;
    case Topology::LEVEL_RAIL:
      return node.topology.rail;
    case Topology::LEVEL_RACK:
      return node.topology.rack;
    case Topology::LEVEL_NVLINK_DOMAIN:
      return node.topology.nvlink_domain;
    case Topology::LEVEL_NODE:
      return node.id.node;
    default:
      return node.id.cluster;
  }
}

std::string LevelInWords(Topology::Level level) {
  switch (level) {
    case Topology::LEVEL_REGION:
      return "region";
    case Topology::LEVEL_ZONE:
      return "zone";
    case Topology::LEVEL_ROW:
      return "row";
    case Topology::LEVEL_RAIL:
      return "rail group";
    case Topology::LEVEL_RACK:
      return "rack";
    case Topology::LEVEL_NVLINK_DOMAIN:
      return "NVLink domain";
    case Topology::LEVEL_NODE:
      return "Node";
    default:
      return "Cluster";
  }
}

int FirstUnmet(const NodeCapacity& node, const NodeRequirements& requirements) {
  static const NodeLabels* const kNone = new NodeLabels();
  if (requirements.empty()) return -1;
  return FirstUnmet(node.reported == nullptr ? *kNone : node.reported->labels(), requirements);
}

const capstan::type::v1::Taint* FirstUntolerated(const NodeCapacity& node,
                                                 const GangRequest& gang) {
  if (node.reported == nullptr || !node.may_have_taints) return nullptr;
  return FirstUntolerated(node.reported->taints(), gang.tolerations);
}

bool Admits(const NodeCapacity& node, const GangRequest& gang) {
  if (!node.eligible) return false;
  if (!gang.clusters.empty() && gang.clusters.count(node.id.cluster) == 0) return false;
  if (gang.avoided.count(node.id) > 0) return false;
  if (!node.order.empty() && gang.orders.count(node.order) == 0) return false;
  if (!node.IsOpen(absl::ZeroDuration(), gang.duration)) return false;
  if (FirstUnmet(node, gang.node_requirements) >= 0) return false;
  if (FirstUntolerated(node, gang) != nullptr) return false;
  return !node.only_submitter || *node.only_submitter == gang.submitter;
}

bool Admits(const NodeCapacity& node, const GangRequest& gang, int group) {
  return Admits(node, gang) && FirstUnmet(node, gang.groups[group].node_requirements) < 0;
}

}  // namespace capstan::scheduler
