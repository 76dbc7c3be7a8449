#include "services/scheduler/core/counterfactuals.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/amount_words.h"
#include "services/scheduler/core/domain_words.h"
#include "services/scheduler/core/explain_moves.h"
#include "services/scheduler/core/freeing.h"
#include "services/scheduler/core/making_room.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/preemption_outlook.h"
#include "services/scheduler/core/queue_sight.h"
#include "services/scheduler/core/queue_waits.h"
#include "services/scheduler/core/time_words.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::ExplainJobResponse;
using capstan::scheduler::v1::Job;
using Counterfactual = ExplainJobResponse::Counterfactual;
using Hindrance = ExplainJobResponse::Hindrance;

// On which who would end is looked for.
constexpr size_t kMostNodes = 256;
constexpr int kMostNodesTold = 20;
constexpr int kMostJobsNamed = 20;

template <typename Add>
void TellAmounts(const Amounts& amounts, Add add) {
  const auto tell = [&add](const std::string& resource, int64_t amount) {
    if (amount == 0) return;
    ExplainJobResponse::Amount& told = *add();
    told.set_resource(resource);
    told.set_amount(amount);
  };
  for (const auto& [name, count] : amounts.accelerators) tell(name, count);
  tell("cpu", amounts.cpu_millis);
  tell("memory", amounts.memory_bytes);
}

void AddFrees(const Freeing& freeing, ExplainJobResponse* response) {
  Counterfactual& counterfactual = *response->add_counterfactuals();
  counterfactual.set_kind(Counterfactual::KIND_FREES);
  std::vector<const NodeCapacity*> nodes;
  Amounts sum;
  for (const Freeing::Part& part : freeing.parts) {
    nodes.push_back(part.node);
    sum.Add(part.amounts);
    if (counterfactual.nodes_size() == kMostNodesTold) continue;
    ExplainJobResponse::NodeFrees& node = *counterfactual.add_nodes();
    node.set_node(part.node->id.Name());
    TellAmounts(part.amounts, [&node] { return node.add_amounts(); });
  }
  counterfactual.set_node_count(static_cast<int>(nodes.size()));
  *counterfactual.mutable_domain() = NarrowestOf(nodes);
  TellAmounts(sum, [&counterfactual] { return counterfactual.add_amounts(); });
  std::vector<std::string> words;
  for (const auto& amount : counterfactual.amounts()) {
    words.push_back(
        absl::StrCat(AmountInWords(amount.resource(), amount.amount()), " ", amount.resource()));
  }
  counterfactual.set_message(absl::StrCat(
      "fits if ", DomainInWords(counterfactual.domain()), " frees ", absl::StrJoin(words, " and "),
      nodes.size() == 1 ? "" : absl::StrCat(" on ", nodes.size(), " of its Nodes")));
}

std::string InWords(const Hindrance& hindrance) {
  const int count = hindrance.job_count();
  const std::string who = absl::StrCat(count, count == 1 ? " Job" : " Jobs");
  const std::string until = TimeInWords(ToTime(hindrance.until()));
  switch (hindrance.kind()) {
    case Hindrance::KIND_PRIORITY:
      return absl::StrCat(who, count == 1 ? " of its Queue has no lower priority"
                                          : " of its Queue have no lower priority");
    case Hindrance::KIND_GUARANTEE:
      return absl::StrCat(
          "of other Queues, ", who, count == 1 ? " is" : " are",
          " within what is guaranteed there, or its own Queue has no guarantee left "
          "that covers it");
    case Hindrance::KIND_MIN_RUNTIME:
      return absl::StrCat(who, count == 1 ? " has" : " have",
                          " not run for the min_runtime of the Queue before ", until);
    case Hindrance::KIND_DISRUPTION_BUDGET:
      return absl::StrCat(who, count == 1 ? " is" : " are",
                          " protected by a disruption budget before ", until);
    case Hindrance::KIND_LIMIT:
      return "even then a limit of its Queues would keep it from starting";
    default:
      return "";
  }
}

void AddPreempts(const Model& model, const JobEntry& job, const PreemptionOutlook& outlook,
                 ExplainJobResponse* response) {
  if (outlook.victims.empty()) return;
  Counterfactual& counterfactual = *response->add_counterfactuals();
  counterfactual.set_kind(Counterfactual::KIND_PREEMPTS);
  counterfactual.set_job_count(static_cast<int>(outlook.victims.size()));
  std::set<std::string> own;
  for (const auto& [uid, shrinks] : outlook.victims) {
    if (shrinks) counterfactual.set_shrinking_count(counterfactual.shrinking_count() + 1);
    const JobEntry* const victim = model.FindJob(uid);
    if (victim == nullptr) continue;
    const std::string& name = victim->spec.name();
    if (ProjectOf(name) == ProjectOf(job.spec.name())) own.insert(name);
  }
  for (const std::string& name : own) {
    if (counterfactual.jobs_size() == kMostJobsNamed) break;
    counterfactual.add_jobs(name);
  }
  std::vector<std::string> who(counterfactual.jobs().begin(), counterfactual.jobs().end());
  const int more = static_cast<int>(own.size()) - counterfactual.jobs_size();
  const int others = counterfactual.job_count() - static_cast<int>(own.size());
  if (more > 0) who.push_back(absl::StrCat(more, more == 1 ? " more Job" : " more Jobs"));
  if (others > 0) {
    who.push_back(absl::StrCat(others, others == 1 ? " Job" : " Jobs", " of other Projects"));
  }
  std::string words = absl::StrJoin(who, " and ");
  if (counterfactual.shrinking_count() > 0) {
    absl::StrAppend(&words, ", of which ", counterfactual.shrinking_count(),
                    " would only give up Tasks");
  }
  std::vector<std::string> why;
  for (const Hindrance& hindrance : outlook.hindrances) {
    *counterfactual.add_hindrances() = hindrance;
    why.push_back(InWords(hindrance));
  }
  if (outlook.from.has_value()) *counterfactual.mutable_time() = ToProto(*outlook.from);
  if (why.empty()) {
    counterfactual.set_message(
        absl::StrCat("fits after preempting ", words, ", which the next round may do"));
  } else if (outlook.from.has_value()) {
    counterfactual.set_message(absl::StrCat("fits after preempting ", words, ", which may be done ",
                                            "from ", TimeInWords(*outlook.from),
                                            " on: ", absl::StrJoin(why, "; ")));
  } else {
    counterfactual.set_message(absl::StrCat("would fit after preempting ", words,
                                            ", which is not done: ", absl::StrJoin(why, "; ")));
  }
}

constexpr char kAssumedWords[] = ", if Jobs without a time_limit run for a day at most";

void AddBackfill(absl::Time time, bool assumed, bool alone, ExplainJobResponse* response) {
  Counterfactual& counterfactual = *response->add_counterfactuals();
  counterfactual.set_kind(Counterfactual::KIND_BACKFILL);
  *counterfactual.mutable_time() = ToProto(time);
  counterfactual.set_assumed(assumed);
  counterfactual.set_alone(alone);
  counterfactual.set_message(
      absl::StrCat(alone ? "would fit about " : "starts about ", TimeInWords(time),
                   alone ? ", when enough of what runs has ended, not counting Jobs ahead of it"
                         : ", when room kept for it is free",
                   assumed ? kAssumedWords : ""));
}

// Of those that it may be on, the ones that lack least; in their order.
std::vector<const NodeStanding*> NodesToLookAt(const std::vector<NodeStanding>& standings,
                                               const RoomSearch& search,
                                               const FreeingSearch& freeing) {
  std::vector<const NodeStanding*> nodes;
  if (standings.size() <= kMostNodes) {
    for (const NodeStanding& standing : standings) nodes.push_back(&standing);
    return nodes;
  }
  std::vector<const std::vector<const NodeCapacity*>*> domains = freeing.nearest;
  if (domains.empty()) {
    for (const auto& [name, in] : search.domains) domains.push_back(&in);
  }
  absl::flat_hash_set<const NodeCapacity*> chosen;
  for (const std::vector<const NodeCapacity*>* in : domains) {
    if (chosen.size() + in->size() <= kMostNodes) {
      chosen.insert(in->begin(), in->end());
      continue;
    }
    if (!chosen.empty()) break;
    std::vector<std::pair<int64_t, size_t>> lacks;
    for (size_t i = 0; i < in->size(); ++i) {
      lacks.emplace_back(LackOf(search.gang.groups.front().each, (*in)[i]->free), i);
    }
    std::partial_sort(lacks.begin(), lacks.begin() + kMostNodes, lacks.end());
    for (size_t i = 0; i < kMostNodes; ++i) chosen.insert((*in)[lacks[i].second]);
    break;
  }
  for (const NodeStanding& standing : standings) {
    if (chosen.contains(&standing.capacity)) nodes.push_back(&standing);
  }
  return nodes;
}

// It is tried in rounds.
bool IsTried(const JobEntry& job) {
  const std::string& reason = job.state.reason();
  return JobGlance::Of(job).waits_for_room() && job.state.making_room_size() == 0 &&
         reason != "QUEUE_HELD" && reason != "QUEUE_RATE" && reason != "RESERVED" &&
         reason != kReturning;
}

}  // namespace

ExplainJobResponse ExplainWhole(const Model& model, const NodeUsage& usage, const JobEntry& job,
                                const std::vector<NodeStanding>& nodes, const CoreConfig& config,
                                absl::Time now) {
  CommonSight common;
  if (job.state.state() == Job::STATE_QUEUED && IsTried(job)) {
    common = SeeCommon(model, usage, nodes, now);
  } else {
    common.waiting_with_gang = model.jobs.WaitingWithGang();
  }
  return ExplainWhole(model, usage, job, nodes, common, config, now);
}

CommonSight SeeCommon(const Model& model, const NodeUsage& usage,
                      const std::vector<NodeStanding>& nodes, absl::Time now) {
  CommonSight common;
  common.waiting_with_gang = model.jobs.WaitingWithGang();
  common.queues = SeeQueues(model, usage, nodes, common.waiting_with_gang, now);
  common.whole = WholeNodes(nodes, usage);
  return common;
}

CommonSight SeeCommon(const QueueBook& book, const Model& model, const NodeUsage& usage,
                      const std::vector<NodeStanding>& nodes) {
  return {SeeQueues(book, nodes), WholeNodes(nodes, usage), model.jobs.WaitingWithGang()};
}

ExplainJobResponse ExplainWhole(const Model& model, const NodeUsage& usage, const JobEntry& job,
                                const std::vector<NodeStanding>& nodes, const CommonSight& common,
                                const CoreConfig& config, absl::Time now) {
  RoomSearch search;
  ExplainJobResponse response =
      ExplainJob(model, job, nodes, now, &search, &common.waiting_with_gang);
  ExplainVictims(model, job, &response);
  ExplainMoves(model, usage, job, nodes, config, now, &response);
  if (job.state.state() != Job::STATE_QUEUED) return response;
  const bool is_tried = IsTried(job);
  const QueueSight* const sight = is_tried ? common.queues.get() : nullptr;
  ExplainQueueWaits(model, job, sight, &response);
  const bool has_start = job.state.has_estimated_start_time();
  if (has_start) {
    AddBackfill(ToTime(job.state.estimated_start_time()), job.state.estimate_assumed(),
                /*alone=*/false, &response);
  }
  if (!is_tried || nodes.empty()) return response;
  if (search.domains.empty()) search = LookForRoom(job, nodes);
  FreeingSearch freeing;
  if (!search.fits) {
    freeing = FindFreeing(
        search.gang, search.domains,
        [&common](const NodeCapacity& node) -> const Amounts& { return common.whole.Of(node); });
  }
  if (freeing.least.has_value()) AddFrees(*freeing.least, &response);
  if (sight == nullptr) return response;
  const PreemptionOutlook outlook = LookForVictims(
      model, usage, job, search.gang, NodesToLookAt(nodes, search, freeing), *sight, config, now);
  AddPreempts(model, job, outlook, &response);
  if (!has_start && outlook.alone.has_value() && outlook.alone->wait > absl::ZeroDuration()) {
    AddBackfill(now + outlook.alone->wait, outlook.alone->assumed, /*alone=*/true, &response);
  }
  return response;
}

}  // namespace capstan::scheduler
