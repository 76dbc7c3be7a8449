#include "services/scheduler/core/room_words.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "libs/mig/layouts.h"
#include "libs/mig/profiles.h"
#include "services/scheduler/core/amount_words.h"
#include "services/scheduler/core/domain_words.h"
#include "services/scheduler/core/mig_amounts.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/topology_levels.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::ExplainJobResponse;
using capstan::scheduler::v1::Topology;

constexpr int kMaxNodeFits = 20;

// `1 node lacks`, `3 nodes lack`, of so many.
std::string NodesOf(int count, int total, absl::string_view one, absl::string_view many) {
  return absl::StrCat(count, " of ", total, total == 1 ? " node " : " nodes ",
                      count == 1 ? one : many);
}

// A resource that Tasks ask for; it is looked up in all Nodes.
struct Resource {
  std::string name;
  // Of what; an accelerator if it is neither of the others.
  bool is_cpu = false;
  bool is_memory = false;
  std::string accelerator;

  const std::string& counted_as() const { return accelerator.empty() ? name : accelerator; }
  int64_t In(const Amounts& amounts) const {
    if (is_cpu) return amounts.cpu_millis;
    if (is_memory) return amounts.memory_bytes;
    const auto it = amounts.accelerators.find(accelerator);
    return it == amounts.accelerators.end() ? 0 : it->second;
  }
};

std::vector<Resource> ResourcesOf(const Amounts& each) {
  std::vector<Resource> resources(2);
  resources[0].name = "cpu";
  resources[0].is_cpu = true;
  resources[1].name = "memory";
  resources[1].is_memory = true;
  for (const auto& [name, count] : each.accelerators) {
    // Whether there is a place says more than how many memory slices are free.
    if (each.mig.ask().has_value() && mig::IsSliceResource(name)) continue;
    Resource& resource = resources.emplace_back();
    resource.name = absl::StrCat("accelerator:", name);
    resource.accelerator = name;
  }
  return resources;
}

// The narrowest level that all of the group is in one domain of.
Topology::Level WithinLevel(const GangRequest& gang, int group) {
  Topology::Level level =
      NarrowerOf(gang.topology.required(), gang.groups[group].topology.required());
  for (int s = gang.groups[group].section; s >= 0; s = gang.sections[s].parent) {
    level = NarrowerOf(level, gang.sections[s].topology.required());
  }
  return level;
}

// Of Nodes without a GPU on which the instance that the next Task asks for could stand.
void AddMig(const PartialFit& fit, ExplainJobResponse* response) {
  const absl::optional<mig::Ask> ask = fit.next.mig.ask();
  if (!ask.has_value()) return;
  const int total = static_cast<int>(fit.left.size());
  std::vector<std::pair<int64_t, const NodeId*>> lacking;
  int with_gpus = 0;
  for (const Room& room : fit.left) {
    const std::vector<MigGpuState> gpus = room.free().mig.Gpus();
    with_gpus += std::any_of(gpus.begin(), gpus.end(),
                             [&ask](const MigGpuState& gpu) { return gpu.model == ask->model; })
                     ? 1
                     : 0;
    if (room.free().mig.Fits(fit.next.mig, 1) > 0) continue;
    const auto free =
        room.free().accelerators.find(mig::SliceResource(mig::DeviceModels()[ask->model]));
    lacking.emplace_back(free == room.free().accelerators.end() ? 0 : free->second,
                         &room.node().id);
  }
  if (lacking.empty()) return;
  std::stable_sort(lacking.begin(), lacking.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  const mig::DeviceModel& model = mig::DeviceModels()[ask->model];
  const mig::Profile& profile = model.profiles[ask->profile];
  ExplainJobResponse::Constraint& constraint = *response->add_constraints();
  constraint.set_type("mig");
  constraint.set_level(ExplainJobResponse::Constraint::LEVEL_NODE);
  constraint.set_nodes(static_cast<int>(lacking.size()));
  constraint.set_requested(profile.memory_slices);
  constraint.set_available(lacking.front().first);
  const int with_room = total - static_cast<int>(lacking.size());
  std::string message =
      absl::StrCat(NodesOf(static_cast<int>(lacking.size()), total, "has", "have"),
                   " no place for a ", profile.name, " instance: ", with_gpus,
                   with_gpus == 1 ? " has" : " have", " GPUs in MIG mode of model ", model.name);
  if (with_gpus > 0) {
    absl::StrAppend(&message, ", ", with_room == 0 ? "none" : absl::StrCat(with_room),
                    " of these with room for it in one piece");
  }
  constraint.set_message(std::move(message));
  for (const auto& [free, id] : lacking) {
    if (constraint.node_fits_size() == kMaxNodeFits) break;
    ExplainJobResponse::NodeFit& node = *constraint.add_node_fits();
    node.set_node(id->Name());
    node.set_available(free);
  }
}

}  // namespace

void AddCount(absl::string_view type, int count, int total, absl::string_view one,
              absl::string_view many, const std::vector<NodeId>& which,
              ExplainJobResponse* response) {
  if (count == 0) return;
  ExplainJobResponse::Constraint& constraint = *response->add_constraints();
  constraint.set_type(std::string(type));
  constraint.set_level(type == "topology" ? ExplainJobResponse::Constraint::LEVEL_TOPOLOGY
                                          : ExplainJobResponse::Constraint::LEVEL_NODE);
  constraint.set_nodes(count);
  constraint.set_message(NodesOf(count, total, one, many));
  for (const NodeId& id : which) {
    if (constraint.node_fits_size() == kMaxNodeFits) break;
    constraint.add_node_fits()->set_node(id.Name());
  }
}

void AddLacking(const GangRequest& gang, const PartialFit& fit, const std::string& task_count,
                ExplainJobResponse* response) {
  const Topology::Level within = WithinLevel(gang, fit.group);
  for (const Resource& of : ResourcesOf(fit.next)) {
    const std::string& resource = of.name;
    const int64_t asked = of.In(fit.next);
    std::vector<std::pair<int64_t, const NodeId*>> lacking;
    int64_t most = 0;
    for (const Room& room : fit.left) {
      const int64_t have = std::max<int64_t>(of.In(room.free()), 0);
      most = std::max(most, have);
      if (have < asked) lacking.emplace_back(asked - have, &room.node().id);
    }
    if (lacking.empty()) continue;
    const auto named = lacking.begin() + std::min<ptrdiff_t>(lacking.size(), kMaxNodeFits);
    std::partial_sort(lacking.begin(), named, lacking.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first, *a.second) < std::tie(b.first, *b.second);
    });
    ExplainJobResponse::Constraint& constraint = *response->add_constraints();
    constraint.set_type(resource);
    constraint.set_level(ExplainJobResponse::Constraint::LEVEL_NODE);
    constraint.set_resource(of.counted_as());
    if (within != Topology::LEVEL_UNSPECIFIED) {
      *constraint.mutable_domain() = DomainAt(fit.left.front().node(), within);
    }
    constraint.set_nodes(static_cast<int>(lacking.size()));
    constraint.set_lacking(lacking.front().first);
    constraint.set_requested(asked);
    constraint.set_available(most);
    constraint.set_message(absl::StrCat(
        fit.placed > 0 ? absl::StrCat("after ", fit.placed, " of ", task_count, " Tasks, ") : "",
        NodesOf(static_cast<int>(lacking.size()), static_cast<int>(fit.left.size()), "lacks ",
                "lack "),
        resource, ": a Task asks ", AmountInWords(resource, asked), ", at most ",
        AmountInWords(resource, most), " free"));
    for (auto lack = lacking.begin(); lack != named; ++lack) {
      ExplainJobResponse::NodeFit& node = *constraint.add_node_fits();
      node.set_node(lack->second->Name());
      node.set_lacking(lack->first);
      node.set_available(asked - lack->first);
    }
  }
  AddMig(fit, response);
  // What most Nodes lack decides most; among equals the order stays.
  std::multimap<int, ExplainJobResponse::Constraint> by_nodes;
  for (const auto& constraint : response->constraints()) {
    by_nodes.emplace(-constraint.nodes(), constraint);
  }
  response->clear_constraints();
  for (const auto& [nodes, constraint] : by_nodes) *response->add_constraints() = constraint;
}

void AddSlice(const GangRequest& gang, const PartialFit& fit, const std::string& task_count,
              ExplainJobResponse* response) {
  const GangRequest::Slice& slice = gang.groups[fit.group].slices[fit.slice];
  ExplainJobResponse::Constraint& constraint = *response->add_constraints();
  constraint.set_type("topology");
  constraint.set_level(ExplainJobResponse::Constraint::LEVEL_TOPOLOGY);
  if (fit.slice_node != nullptr) {
    *constraint.mutable_domain() = DomainAt(*fit.slice_node, slice.level);
  } else {
    constraint.mutable_domain()->set_level(slice.level);
  }
  constraint.set_nodes(static_cast<int>(fit.left.size()));
  constraint.set_lacking(slice.size - fit.slice_holds);
  constraint.set_requested(slice.size);
  constraint.set_available(fit.slice_holds);
  constraint.set_message(absl::StrCat(
      fit.placed > 0 ? absl::StrCat("after ", fit.placed, " of ", task_count, " Tasks, ") : "",
      "no ", LevelInWords(slice.level), " has room for ", slice.size, " more: at most ",
      fit.slice_holds));
}

std::vector<std::string> WithinWords(const JobEntry& job, const GangRequest& gang, int group) {
  const auto one = [](absl::string_view what, const Topology& topology) {
    return absl::StrCat("all of ", what, " must be in one ", LevelInWords(topology.required()));
  };
  std::vector<std::string> words;
  const auto& spec = job.spec.spec();
  if (gang.topology.required() != Topology::LEVEL_UNSPECIFIED) {
    words.push_back(one("it", gang.topology));
  }
  if (group < 0) return words;
  const size_t whole = words.size();
  for (int s = gang.groups[group].section; s >= 0; s = gang.sections[s].parent) {
    if (gang.sections[s].topology.required() == Topology::LEVEL_UNSPECIFIED) continue;
    words.insert(words.begin() + static_cast<ptrdiff_t>(whole),
                 one(absl::StrCat("section ", spec.sections(s).name()), gang.sections[s].topology));
  }
  const std::string name = absl::StrCat("TaskGroup ", spec.task_groups(group).name());
  if (gang.groups[group].topology.required() != Topology::LEVEL_UNSPECIFIED) {
    words.push_back(one(name, gang.groups[group].topology));
  }
  std::vector<std::string> slices;
  for (const GangRequest::Slice& slice : gang.groups[group].slices) {
    slices.push_back(absl::StrCat("each ", slice.size,
                                  slices.empty() ? absl::StrCat(" of ", name, " must be") : "",
                                  " in one ", LevelInWords(slice.level)));
  }
  if (!slices.empty()) words.push_back(absl::StrJoin(slices, ", of these "));
  return words;
}

}  // namespace capstan::scheduler
