#include "services/scheduler/core/explain.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/amount_words.h"
#include "services/scheduler/core/capacity_orders.h"
#include "services/scheduler/core/dependencies.h"
#include "services/scheduler/core/disruptions.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/maintenance.h"
#include "services/scheduler/core/node_refusals.h"
#include "services/scheduler/core/partial_fit.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/retry.h"
#include "services/scheduler/core/room_words.h"
#include "services/scheduler/core/time_words.h"
#include "services/scheduler/core/topology_levels.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::ExplainJobResponse;
using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::Node;
using capstan::scheduler::v1::Topology;
using capstan::type::v1::NodeObservation;
using capstan::type::v1::TaskObservation;

constexpr char kFits[] = "it fits and is about to be placed";
// Of a Job that a round did not place all the same.
constexpr char kFitsNot[] =
    "what is free would hold it, but is kept for others or cannot be divided among its TaskGroups";

void ExplainRoom(const JobEntry& job, const std::vector<NodeStanding>& standings,
                 RoomSearch* search, ExplainJobResponse* response) {
  GangRequest& gang = search->gang;
  gang = GangRequest::From(job);
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
  std::map<std::string, std::vector<const NodeCapacity*>>& domains = search->domains;
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
  if (best.has_value() && !best->left.empty()) AddLacking(gang, *best, task_count, response);
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
  search->fits = best.has_value() && best->group < 0;
  if (search->fits) {
    response->set_summary(kFits);
    return;
  }
  const std::vector<std::string> within =
      WithinWords(job, gang, best.has_value() ? best->group : -1);
  if (best.has_value()) {
    for (const auto& [depth, which] : best->outside) {
      const std::string words = LevelInWords(kLevelsByWidth[depth]);
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

// What ends it.
std::string ReleaseInWords(const JobEntry& job) {
  return absl::StrCat(" before it is released: `capstan job release ", job.spec.name(), "`");
}

void ExplainQueued(const JobEntry& job, const std::vector<NodeStanding>& nodes, RoomSearch* search,
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
  if (job.state.reason() == kHeld) {
    response->set_summary(absl::StrCat("it is held, and does not start", ReleaseInWords(job)));
    return;
  }
  if (job.state.reason() == "QUEUE_LIMIT" || job.state.reason() == "QUEUE_HELD" ||
      job.state.reason() == "QUEUE_RATE" || job.state.reason() == "MAKING_ROOM" ||
      job.state.reason() == "ARRAY_LIMIT" || IsReturning(job)) {
    response->set_summary(job.state.message());
    return;
  }
  ExplainRoom(job, nodes, search, response);
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

std::vector<NodeStanding> Standings(const Model& model, const NodeUsage& usage,
                                    const std::set<NodeId>& draining,
                                    const std::set<NodeId>& unreported, absl::Time now) {
  std::vector<NodeStanding> standings;
  standings.reserve(model.nodes.size());
  for (const auto& [id, node] : model.nodes) {
    standings.push_back(
        StandingOf(model, usage, id, node, draining.count(id) > 0, unreported.count(id) > 0, now));
  }
  return standings;
}

NodeStanding StandingOf(const Model& model, const NodeUsage& usage, const NodeId& id,
                        const rec::NodeRecord& node, bool is_draining, bool is_unreported,
                        absl::Time now) {
  NodeStanding standing;
  const NodeUsage::Entry& used = usage.Get(id);
  standing.capacity.id = id;
  standing.capacity.free = AllocatableOf(node.observation());
  standing.capacity.free.Subtract(used.allocated);
  standing.silent = node.state() != Node::STATE_ACTIVE || is_unreported;
  standing.cordoned = node.cordons_size() > 0;
  standing.draining = is_draining;
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
  standing.capacity.may_have_taints = !node.observation().taints().empty();
  if (!model.maintenance_windows.empty()) {
    const auto windows = WindowsOf(model, id, node, now);
    standing.capacity.closures = ClosuresOf(windows, now);
    standing.maintained = !standing.capacity.IsOpen(absl::ZeroDuration(), absl::Nanoseconds(1));
    standing.evicts_in = EvictsIn(windows, now);
  }
  standing.capacity.eligible = !standing.silent && !standing.cordoned && !standing.draining;
  return standing;
}

int PositionOf(const std::vector<NodeStanding>& standings, const NodeId& id) {
  const auto found = std::lower_bound(standings.begin(), standings.end(), id,
                                      [](const NodeStanding& standing, const NodeId& wanted) {
                                        return standing.capacity.id < wanted;
                                      });
  if (found == standings.end() || found->capacity.id != id) return -1;
  return static_cast<int>(found - standings.begin());
}

RoomSearch LookForRoom(const JobEntry& job, const std::vector<NodeStanding>& nodes) {
  ExplainJobResponse response;
  RoomSearch search;
  ExplainRoom(job, nodes, &search, &response);
  return search;
}

std::string RoomInWords(const JobEntry& job, const std::vector<NodeStanding>& nodes) {
  ExplainJobResponse response;
  RoomSearch search;
  ExplainRoom(job, nodes, &search, &response);
  return response.summary() == kFits ? kFitsNot : response.summary();
}

namespace {

// Who goes before one that waits, and for whom room is kept.
void ExplainOthers(const Model& model, const JobEntry& job,
                   const std::vector<JobGlance>* waiting_with_gang, ExplainJobResponse* response) {
  const JobGlance own = JobGlance::Of(job);
  response->set_jobs_ahead(static_cast<int>(model.jobs.CountAhead(
      own, waiting_with_gang == nullptr ? model.jobs.WaitingWithGang() : *waiting_with_gang)));
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
  constraint.set_level(ExplainJobResponse::Constraint::LEVEL_QUEUE);
  constraint.set_queue(spec.queue());
  constraint.set_message(absl::StrCat(
      count, count == 1 ? " Job" : " Jobs",
      " of lower priority may not be ended for it by the disruption budget of the Queue",
      count == 1 ? " before " : ", the first of them before ", TimeInWords(now + first)));
  response->set_summary(absl::StrCat(response->summary(), "; ", constraint.message()));
}

}  // namespace

ExplainJobResponse ExplainJob(const Model& model, const JobEntry& job,
                              const std::vector<NodeStanding>& nodes, absl::Time now,
                              RoomSearch* search, const std::vector<JobGlance>* waiting_with_gang) {
  ExplainJobResponse response;
  RoomSearch unseen;
  if (search == nullptr) search = &unseen;
  response.set_reason(job.state.reason());
  int missing = 0;
  switch (job.state.state()) {
    case Job::STATE_QUEUED:
      if (job.state.reason() == kAwaitsJobs) {
        response.set_summary(AwaitedInWords(job, model));
        break;
      }
      ExplainQueued(job, nodes, search, &response);
      if (job.state.reason() == kOrdered) {
        response.set_summary(absl::StrCat(response.summary(), OrdersInWords(model, job.uid())));
      }
      ExplainOthers(model, job, waiting_with_gang, &response);
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
  if (job.state.hold() && !job.final() && job.state.reason() != kHeld) {
    const bool is_placed = job.state.state() != Job::STATE_QUEUED;
    response.set_summary(absl::StrCat(response.summary(), "; it is held too, and does not start",
                                      is_placed ? " again" : "", ReleaseInWords(job)));
  }
  return response;
}

}  // namespace capstan::scheduler
