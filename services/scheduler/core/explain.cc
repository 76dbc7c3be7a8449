#include "services/scheduler/core/explain.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "libs/mig/layouts.h"
#include "libs/mig/profiles.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/capacity_orders.h"
#include "services/scheduler/core/dependencies.h"
#include "services/scheduler/core/disruptions.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/maintenance.h"
#include "services/scheduler/core/mig_amounts.h"
#include "services/scheduler/core/node_refusals.h"
#include "services/scheduler/core/partial_fit.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/retry.h"
#include "services/scheduler/core/time_words.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::ExplainJobResponse;
using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::Node;
using capstan::scheduler::v1::Topology;
using capstan::type::v1::NodeObservation;
using capstan::type::v1::TaskObservation;

constexpr int kMaxNodeFits = 20;
constexpr char kFits[] = "it fits and is about to be placed";
// Of a Job that a round did not place all the same.
constexpr char kFitsNot[] =
    "what is free would hold it, but is kept for others or cannot be divided among its TaskGroups";

std::string TrimmedDecimal(double value) {
  std::string text = absl::StrFormat("%.3f", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string FormatAmount(absl::string_view resource, int64_t amount) {
  if (resource == "cpu") return CoresInWords(amount);
  if (resource == "memory") return BytesInWords(amount);
  return absl::StrCat(amount);
}

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

void AddCount(absl::string_view type, int count, int total, absl::string_view one,
              absl::string_view many, const std::vector<NodeId>& which,
              ExplainJobResponse* response) {
  if (count == 0) return;
  ExplainJobResponse::Constraint& constraint = *response->add_constraints();
  constraint.set_type(std::string(type));
  constraint.set_nodes(count);
  constraint.set_message(NodesOf(count, total, one, many));
  for (const NodeId& id : which) {
    if (constraint.node_fits_size() == kMaxNodeFits) break;
    constraint.add_node_fits()->set_node(id.Name());
  }
}

// Of Nodes without a GPU on which the instance that the next Task asks for could stand.
void AddMig(const PartialFit& fit, ExplainJobResponse* response) {
  const absl::optional<mig::Ask> ask = fit.next.mig.ask();
  if (!ask.has_value()) return;
  const int total = static_cast<int>(fit.left.size());
  std::vector<std::pair<int64_t, const NodeId*>> lacking;
  int with_gpus = 0;
  for (const Room& room : fit.left) {
    const std::vector<MigGpuState> gpus = room.free.mig.Gpus();
    with_gpus += std::any_of(gpus.begin(), gpus.end(),
                             [&ask](const MigGpuState& gpu) { return gpu.model == ask->model; })
                     ? 1
                     : 0;
    if (room.free.mig.Fits(fit.next.mig, 1) > 0) continue;
    const auto free =
        room.free.accelerators.find(mig::SliceResource(mig::DeviceModels()[ask->model]));
    lacking.emplace_back(free == room.free.accelerators.end() ? 0 : free->second, &room.node->id);
  }
  if (lacking.empty()) return;
  std::stable_sort(lacking.begin(), lacking.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  const mig::DeviceModel& model = mig::DeviceModels()[ask->model];
  const mig::Profile& profile = model.profiles[ask->profile];
  ExplainJobResponse::Constraint& constraint = *response->add_constraints();
  constraint.set_type("mig");
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

void AddResources(const PartialFit& fit, const std::string& task_count,
                  ExplainJobResponse* response) {
  for (const Resource& of : ResourcesOf(fit.next)) {
    const std::string& resource = of.name;
    const int64_t asked = of.In(fit.next);
    std::vector<std::pair<int64_t, const NodeId*>> lacking;
    int64_t most = 0;
    for (const Room& room : fit.left) {
      const int64_t have = std::max<int64_t>(of.In(room.free), 0);
      most = std::max(most, have);
      if (have < asked) lacking.emplace_back(asked - have, &room.node->id);
    }
    if (lacking.empty()) continue;
    const auto named = lacking.begin() + std::min<ptrdiff_t>(lacking.size(), kMaxNodeFits);
    std::partial_sort(lacking.begin(), named, lacking.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first, *a.second) < std::tie(b.first, *b.second);
    });
    ExplainJobResponse::Constraint& constraint = *response->add_constraints();
    constraint.set_type(resource);
    constraint.set_nodes(static_cast<int>(lacking.size()));
    constraint.set_lacking(lacking.front().first);
    constraint.set_requested(asked);
    constraint.set_available(most);
    constraint.set_message(absl::StrCat(
        fit.placed > 0 ? absl::StrCat("after ", fit.placed, " of ", task_count, " Tasks, ") : "",
        NodesOf(static_cast<int>(lacking.size()), static_cast<int>(fit.left.size()), "lacks ",
                "lack "),
        resource, ": a Task asks ", FormatAmount(resource, asked), ", at most ",
        FormatAmount(resource, most), " free"));
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

// Of slices that are whole in no domain.
void AddSlice(const GangRequest& gang, const PartialFit& fit, const std::string& task_count,
              ExplainJobResponse* response) {
  const GangRequest::Slice& slice = gang.groups[fit.group].slices[fit.slice];
  ExplainJobResponse::Constraint& constraint = *response->add_constraints();
  constraint.set_type("topology");
  constraint.set_nodes(static_cast<int>(fit.left.size()));
  constraint.set_lacking(slice.size - fit.slice_holds);
  constraint.set_requested(slice.size);
  constraint.set_available(fit.slice_holds);
  constraint.set_message(absl::StrCat(
      fit.placed > 0 ? absl::StrCat("after ", fit.placed, " of ", task_count, " Tasks, ") : "",
      "no ", LevelInWords(slice.level), " has room for ", slice.size, " more: at most ",
      fit.slice_holds));
}

// What must be in one domain of those around the group, the widest first.
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

void ExplainRoom(const JobEntry& job, const std::vector<NodeStanding>& standings,
                 ExplainJobResponse* response) {
  GangRequest gang = GangRequest::From(job);
  for (const NodeStanding& standing : standings) {
    if (standing.nominee == job.uid() && !standing.nominee.empty()) {
      gang.orders.insert(standing.capacity.order);
    }
  }
  const int total = static_cast<int>(standings.size());
  if (total == 0) {
    response->set_summary("no node is known yet");
    return;
  }
  // By domain, those that it may be on.
  std::map<std::string, std::vector<const NodeCapacity*>> domains;
  // The last of them: Nodes come sorted by Cluster.
  std::vector<const NodeCapacity*>* in_cluster = nullptr;
  const std::string* cluster = nullptr;
  std::map<std::string, std::vector<NodeId>> out;
  NodeRefusals refusals;
  for (const NodeStanding& standing : standings) {
    const NodeCapacity& capacity = standing.capacity;
    if (!gang.clusters.empty() && gang.clusters.count(capacity.id.cluster) == 0) {
      out["cluster"].push_back(capacity.id);
    } else if (refusals.Count(capacity, gang)) {
      continue;
    } else if (standing.silent) {
      out["silent"].push_back(capacity.id);
    } else if (standing.cordoned) {
      out["cordoned"].push_back(capacity.id);
    } else if (standing.draining) {
      out["draining"].push_back(capacity.id);
    } else if (gang.avoided.count(capacity.id) > 0) {
      out["avoided"].push_back(capacity.id);
    } else if (!capacity.order.empty() && gang.orders.count(capacity.order) == 0) {
      out["ordered"].push_back(capacity.id);
    } else if (!capacity.IsOpen(absl::ZeroDuration(), gang.duration)) {
      out["maintenance"].push_back(capacity.id);
    } else if (!Admits(capacity, gang)) {
      out["isolation"].push_back(capacity.id);
    } else if (gang.topology.required() == Topology::LEVEL_UNSPECIFIED) {
      if (cluster == nullptr || *cluster != capacity.id.cluster) {
        cluster = &capacity.id.cluster;
        in_cluster = &domains[DomainOf(capacity, Topology::LEVEL_UNSPECIFIED)];
      }
      in_cluster->push_back(&capacity);
    } else if (std::string domain = DomainOf(capacity, gang.topology.required()); domain.empty()) {
      out["topology"].push_back(capacity.id);
    } else {
      domains[std::move(domain)].push_back(&capacity);
    }
  }
  absl::optional<PartialFit> best;
  for (const auto& [domain, nodes] : domains) {
    PartialFit fit = FitWhatFits(gang, nodes);
    if (!best.has_value() || fit.placed > best->placed) best = std::move(fit);
  }
  const std::string task_count =
      absl::StrCat(IsElastic(job.spec.spec()) ? "at least " : "", MinTaskCount(job.spec.spec()));
  if (best.has_value() && best->slice >= 0) AddSlice(gang, *best, task_count, response);
  if (best.has_value() && !best->left.empty()) AddResources(*best, task_count, response);
  if (best.has_value() && best->group >= 0) refusals.CountOf(*best, job.spec.spec(), gang);
  for (const NodeRefusals::One& one : refusals.all()) {
    AddCount(one.type, static_cast<int>(one.nodes.size()), total, one.singular, one.plural,
             one.nodes, response);
  }
  const auto add = [&](absl::string_view type, absl::string_view one, absl::string_view many) {
    const std::vector<NodeId>& which = out[std::string(type)];
    AddCount(type, static_cast<int>(which.size()), total, one, many, which, response);
  };
  add("cordoned", "is cordoned", "are cordoned");
  add("silent", "is silent", "are silent");
  add("draining", "is shutting down", "are shutting down");
  add("isolation", "runs another submitter's Tasks and cannot isolate them",
      "run another submitter's Tasks and cannot isolate them");
  add("ordered", "is kept for a Job that it was ordered for",
      "are kept for a Job that they were ordered for");
  add("avoided", "failed a Task of the Job, which stays off it for a time",
      "failed Tasks of the Job, which stays off them for a time");
  if (gang.duration == absl::InfiniteDuration()) {
    add("maintenance",
        "is in a maintenance window, or will be, which a Job without a time_limit might run into",
        "are in a maintenance window, or will be, which a Job without a time_limit might run into");
  } else {
    add("maintenance", "is in a maintenance window, or will be before the Job would be over",
        "are in a maintenance window, or will be before the Job would be over");
  }
  add("cluster", "is in a cluster that the Job may not use",
      "are in clusters that the Job may not use");
  const std::string level = LevelInWords(gang.topology.required());
  add("topology", absl::StrCat("is in no ", level), absl::StrCat("are in no ", level));
  if (best.has_value() && best->group < 0) {
    response->set_summary(kFits);
    return;
  }
  const std::vector<std::string> within =
      WithinWords(job, gang, best.has_value() ? best->group : -1);
  if (best.has_value()) {
    for (const auto& [inner, which] : best->outside) {
      const std::string words = LevelInWords(inner);
      AddCount("topology", static_cast<int>(which.size()), total, absl::StrCat("is in no ", words),
               absl::StrCat("are in no ", words), which, response);
    }
  }
  std::vector<std::string> parts;
  for (const auto& constraint : response->constraints()) parts.push_back(constraint.message());
  response->set_summary(absl::StrJoin(parts, "; "));
  if (!within.empty()) {
    response->set_summary(absl::StrCat(absl::StrJoin(within, " and "), ": ", response->summary()));
  }
}

std::string DescribeTask(const JobEntry& job, int rank) {
  const auto [group, index] = GroupOf(job, rank);
  return absl::StrCat(job.spec.spec().task_groups(group).name(), "-", index, " on ",
                      job.gang->node(rank).Name());
}

// Names the first Tasks whose state is below `state`.
std::string MissingTasks(const JobEntry& job, TaskObservation::State state, int* count) {
  std::vector<std::string> names;
  *count = 0;
  for (size_t rank = 0; rank < job.gang->tasks.size(); ++rank) {
    const rec::TaskRecord& task = job.gang->tasks[rank];
    if (task.state() >= state) continue;
    ++*count;
    if (names.size() == 3) continue;
    std::string name = DescribeTask(job, static_cast<int>(rank));
    if (!task.progress().empty()) absl::StrAppend(&name, " (", task.progress(), ")");
    names.push_back(std::move(name));
  }
  return absl::StrCat(absl::StrJoin(names, ", "), *count > 3 ? ", …" : "");
}

void ExplainStopping(const JobEntry& job, const std::vector<NodeStanding>& standings,
                     ExplainJobResponse* response) {
  int missing = 0;
  const std::string names = MissingTasks(job, TaskObservation::STATE_ENDED, &missing);
  std::string summary = absl::StrCat("waits for the confirmed end of ", missing, " of ",
                                     job.gang->tasks.size(), " Tasks: ", names);
  std::vector<NodeId> silent;
  for (const NodeStanding& standing : standings) {
    if (!standing.silent) continue;
    for (size_t rank = 0; rank < job.gang->tasks.size(); ++rank) {
      if (!job.gang->ended(static_cast<int>(rank)) &&
          job.gang->node(static_cast<int>(rank)) == standing.capacity.id) {
        silent.push_back(standing.capacity.id);
        break;
      }
    }
  }
  if (!silent.empty()) {
    absl::StrAppend(&summary, "; ", silent.size(),
                    silent.size() == 1 ? " of their Nodes is silent and is"
                                       : " of their Nodes are silent and are",
                    " given up only once its Tasks must have ended themselves (fence_after ",
                    absl::FormatDuration(ToDuration(job.spec.spec().fence_after())),
                    " and a margin)");
  }
  AddCount("silent", static_cast<int>(silent.size()), static_cast<int>(standings.size()),
           "is silent", "are silent", silent, response);
  response->set_summary(summary);
}

void ExplainQueued(const JobEntry& job, const std::vector<NodeStanding>& nodes,
                   ExplainJobResponse* response) {
  if (job.state.reason() == "AWAITING_DATA") {
    int ready = 0;
    int64_t loaded = 0;
    int64_t total = 0;
    for (const rec::DatasetState& dataset : job.state.datasets()) {
      if (dataset.ready()) ++ready;
      loaded += dataset.loaded_bytes();
      total += dataset.total_bytes();
    }
    std::string summary = absl::StrCat("waits for its data: ", ready, " of ",
                                       job.state.datasets_size(), " datasets are ready");
    if (total > 0) {
      absl::StrAppend(&summary, ", ", BytesInWords(loaded), " of ", BytesInWords(total), " loaded");
    }
    if (job.state.data_cluster().empty()) {
      absl::StrAppend(&summary, "; no cluster to bring it to is known yet");
    }
    response->set_summary(summary);
    return;
  }
  if (job.state.reason() == "BACK_OFF") {
    response->set_summary(absl::StrCat(job.state.message(), "; waits until ",
                                       TimeInWords(ToTime(job.state.retry_time()))));
    return;
  }
  if (job.state.reason() == "QUEUE_LIMIT" || job.state.reason() == "QUEUE_HELD" ||
      job.state.reason() == "QUEUE_RATE" || job.state.reason() == "MAKING_ROOM" ||
      job.state.reason() == "ARRAY_LIMIT" || IsReturning(job)) {
    response->set_summary(job.state.message());
    return;
  }
  ExplainRoom(job, nodes, response);
  std::string summary = response->summary();
  if (summary == kFits && job.state.message() == kFitsNot) summary = kFitsNot;
  if (job.state.reason() == "RESERVED") summary = job.state.message();
  if (job.state.reason() == "PREEMPTED") {
    summary = absl::StrCat("was ended for a Job of higher standing; ", summary);
  }
  if (job.state.reason() == "MAINTENANCE") {
    summary = absl::StrCat("was stopped for a maintenance window; ", summary);
  }
  if (job.state.has_estimated_start_time()) {
    *response->mutable_estimated_start_time() = job.state.estimated_start_time();
    response->set_estimate_assumed(job.state.estimate_assumed());
    absl::StrAppend(&summary, "; room is kept for it, and it can start by ",
                    TimeInWords(ToTime(job.state.estimated_start_time())),
                    job.state.estimate_assumed()
                        ? ", if Jobs without a time_limit run for a day at most"
                        : " at the latest");
  }
  response->set_summary(summary);
}

}  // namespace

std::string CoresInWords(int64_t millis) {
  return TrimmedDecimal(static_cast<double>(millis) / 1000);
}

std::string BytesInWords(int64_t bytes) {
  static constexpr const char* kUnits[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 5) {
    value /= 1024;
    ++unit;
  }
  std::string text = absl::StrFormat("%.2f", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return absl::StrCat(text, kUnits[unit]);
}

std::vector<NodeStanding> Standings(const Model& model, const NodeUsage& usage,
                                    const std::set<NodeId>& draining,
                                    const std::set<NodeId>& unreported, absl::Time now) {
  std::vector<NodeStanding> standings;
  standings.reserve(model.nodes.size());
  for (const auto& [id, node] : model.nodes) {
    NodeStanding standing;
    const NodeUsage::Entry& used = usage.Get(id);
    standing.capacity.id = id;
    standing.capacity.free = AllocatableOf(node.observation());
    standing.capacity.free.Subtract(used.allocated);
    standing.silent = node.state() != Node::STATE_ACTIVE || unreported.count(id) > 0;
    standing.cordoned = node.cordons_size() > 0;
    standing.draining = draining.count(id) > 0;
    if (const std::string order = OrderOfNode(model, id, node); !order.empty()) {
      const rec::CapacityOrderRecord& record = model.capacity_orders.at(order);
      if (!record.used() && !record.nominee_uid().empty()) {
        standing.capacity.order = order;
        standing.nominee = record.nominee_uid();
      }
    }
    for (int limitation : node.observation().limitations()) {
      if (limitation == NodeObservation::LIMITATION_DRAINING) standing.draining = true;
      if (limitation == NodeObservation::LIMITATION_UNISOLATED) standing.unisolated = true;
    }
    if (standing.unisolated && !used.jobs.empty()) {
      standing.capacity.only_submitter = model.FindJob(*used.jobs.begin())->spec.submitter();
    }
    standing.capacity.unisolated = standing.unisolated;
    standing.capacity.topology = NodeTopology::From(node.observation().labels());
    standing.capacity.reported = &node.observation();
    if (!model.maintenance_windows.empty()) {
      const auto windows = WindowsOf(model, id, node, now);
      standing.capacity.closures = ClosuresOf(windows, now);
      standing.maintained = !standing.capacity.IsOpen(absl::ZeroDuration(), absl::Nanoseconds(1));
      standing.evicts_in = EvictsIn(windows, now);
    }
    standing.capacity.eligible = !standing.silent && !standing.cordoned && !standing.draining;
    standings.push_back(std::move(standing));
  }
  return standings;
}

std::string RoomInWords(const JobEntry& job, const std::vector<NodeStanding>& nodes) {
  ExplainJobResponse response;
  ExplainRoom(job, nodes, &response);
  return response.summary() == kFits ? kFitsNot : response.summary();
}

namespace {

// Who goes before one that waits, and for whom room is kept.
void ExplainOthers(const Model& model, const JobEntry& job, ExplainJobResponse* response) {
  const JobGlance own = JobGlance::Of(job);
  response->set_jobs_ahead(static_cast<int>(model.jobs.CountAhead(own)));
  if (own.reason != "RESERVED") return;
  std::vector<std::string> kept_for;
  model.jobs.ForEachWaiting([&](absl::string_view uid) {
    const JobGlance other = *model.jobs.Glance(uid);
    if (!other.has_room_kept()) return false;
    if (other.has_estimate && other.uid != own.uid) kept_for.emplace_back(other.uid);
    return true;
  });
  for (const std::string& uid : kept_for) {
    const auto& start = model.FindJob(uid)->state.estimated_start_time();
    response->set_summary(absl::StrCat(response->summary(), ", by ", TimeInWords(ToTime(start))));
  }
}

// Whom it may not have ended yet.
void ExplainBudgets(const Model& model, const JobEntry& job, absl::Time now,
                    ExplainJobResponse* response) {
  using capstan::scheduler::v1::JobSpec;
  const bool any_budget =
      std::any_of(model.queues.begin(), model.queues.end(),
                  [](const auto& queue) { return queue.second.queue().has_disruption_budget(); });
  if (!any_budget) return;
  const JobSpec& spec = job.spec.spec();
  int count = 0;
  absl::Duration first = absl::InfiniteDuration();
  model.jobs.ForEachLive([&](absl::string_view, const JobEntry& other) {
    if (other.spec.spec().queue() != spec.queue() ||
        other.spec.spec().priority() >= spec.priority() ||
        other.spec.spec().preemption() == JobSpec::PREEMPTION_NEVER) {
      return;
    }
    const absl::Duration left = ProtectedByBudget(model, other, now);
    if (left == absl::ZeroDuration()) return;
    ++count;
    first = std::min(first, left);
  });
  if (count == 0) return;
  ExplainJobResponse::Constraint& constraint = *response->add_constraints();
  constraint.set_type("disruption_budget");
  constraint.set_message(absl::StrCat(
      count, count == 1 ? " Job" : " Jobs",
      " of lower priority may not be ended for it by the disruption budget of the Queue",
      count == 1 ? " before " : ", the first of them before ", TimeInWords(now + first)));
  response->set_summary(absl::StrCat(response->summary(), "; ", constraint.message()));
}

}  // namespace

ExplainJobResponse ExplainJob(const Model& model, const JobEntry& job,
                              const std::vector<NodeStanding>& nodes, absl::Time now) {
  ExplainJobResponse response;
  response.set_reason(job.state.reason());
  int missing = 0;
  switch (job.state.state()) {
    case Job::STATE_QUEUED:
      if (job.state.reason() == kAwaitsJobs) {
        response.set_summary(AwaitedInWords(job, model));
        break;
      }
      ExplainQueued(job, nodes, &response);
      if (job.state.reason() == kOrdered) {
        response.set_summary(absl::StrCat(response.summary(), OrdersInWords(model, job.uid())));
      }
      ExplainOthers(model, job, &response);
      if (JobGlance::Of(job).waits_for_room()) ExplainBudgets(model, job, now, &response);
      break;
    case Job::STATE_PREPARING: {
      const std::string names = MissingTasks(job, TaskObservation::STATE_PREPARED, &missing);
      response.set_summary(absl::StrCat("placed; waits for ", missing, " of ",
                                        job.gang->tasks.size(), " Tasks to be prepared: ", names));
      break;
    }
    case Job::STATE_STOPPING:
      ExplainStopping(job, nodes, &response);
      break;
    case Job::STATE_RUNNING: {
      std::set<NodeId> used;
      for (size_t rank = 0; rank < job.gang->nodes.size(); ++rank) {
        used.insert(job.gang->node(static_cast<int>(rank)));
      }
      response.set_summary(absl::StrCat("runs as generation ", job.state.generation(), " on ",
                                        used.size(), used.size() == 1 ? " node" : " nodes",
                                        SizeInWords(job)));
      break;
    }
    default:
      response.set_summary(job.state.message());
      break;
  }
  return response;
}

}  // namespace capstan::scheduler
