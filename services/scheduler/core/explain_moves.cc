#include "services/scheduler/core/explain_moves.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/disruptions.h"
#include "services/scheduler/core/move_terms.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/tight_placer.h"
#include "services/scheduler/core/time_words.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::ExplainJobResponse;
using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using rec::GangHeadRecord;

constexpr char kSetting[] = "mig_repartition.max_cost of the scheduler";

std::string InWords(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Seconds(1)));
}

// Nodes that are looked at: whoever asks has the strand wait, and the search takes time in
// proportion to its Nodes and gangs.
constexpr size_t kMostNodes = 64;

// Of the Nodes those with most room of what the Job asks for, though not in one piece; in their
// order.
std::vector<NodeStanding> Roomiest(const std::vector<NodeStanding>& nodes,
                                   const GangRequest& request) {
  const std::set<std::string> slices = SliceResourcesOf(request);
  // The most first; of equal ones the first Node.
  std::vector<std::pair<int64_t, size_t>> rooms;
  for (size_t n = 0; n < nodes.size(); ++n) {
    int64_t room = 0;
    for (const std::string& name : slices) {
      const auto free = nodes[n].capacity.free.accelerators.find(name);
      if (free != nodes[n].capacity.free.accelerators.end()) room += free->second;
    }
    if (room > 0) rooms.emplace_back(-room, n);
  }
  const size_t most = std::min(rooms.size(), kMostNodes);
  std::partial_sort(rooms.begin(), rooms.begin() + static_cast<int64_t>(most), rooms.end());
  std::vector<size_t> chosen;
  for (size_t i = 0; i < most; ++i) chosen.push_back(rooms[i].second);
  std::sort(chosen.begin(), chosen.end());
  std::vector<NodeStanding> roomiest;
  for (const size_t n : chosen) roomiest.push_back(nodes[n]);
  return roomiest;
}

// What runs, on these Nodes alone, and has MIG instances.
struct Holders {
  std::vector<HeldGang> gangs;
  // By position: for how long yet it may not be moved.
  std::vector<absl::Duration> protected_for;
  // What any of them stays off.
  std::set<NodeId> avoided;
};

Holders HoldersOf(const Model& model, const NodeUsage& usage,
                  const std::vector<NodeStanding>& nodes, const CoreConfig& config,
                  absl::Time now) {
  Holders holders;
  for (const auto& [uid, shares] : usage.shares()) {
    HeldGang gang;
    gang.uid = uid;
    bool any_silent = false;
    bool is_whole = true;
    for (const auto& [id, share] : shares) {
      const auto at = std::lower_bound(nodes.begin(), nodes.end(), id,
                                       [](const NodeStanding& standing, const NodeId& wanted) {
                                         return standing.capacity.id < wanted;
                                       });
      is_whole = at != nodes.end() && at->capacity.id == id;
      if (!is_whole) break;
      any_silent = any_silent || at->silent;
      gang.shares.emplace_back(static_cast<int>(at - nodes.begin()), share.amounts);
    }
    if (!is_whole) continue;
    const JobEntry* const job = model.FindJob(uid);
    if (job == nullptr || !job->live() || !AsksForMig(job->spec.spec())) continue;
    const JobSpec& spec = job->spec.spec();
    const GangHeadRecord::Phase phase = job->gang->head.phase();
    const bool started = phase == GangHeadRecord::PHASE_STARTED;
    const absl::Duration ran =
        started ? std::max(now - ToTime(job->state.start_time()), absl::ZeroDuration())
                : absl::ZeroDuration();
    gang.ending = phase == GangHeadRecord::PHASE_STOPPING;
    gang.preemptible = spec.preemption() != JobSpec::PREEMPTION_NEVER && !any_silent;
    gang.grace = ToDuration(spec.stop_grace());
    gang.left = kAssumedRun;
    gang.unsaved =
        spec.has_checkpoint_period() ? std::min(ran, ToDuration(spec.checkpoint_period())) : ran;
    for (const auto& avoided : job->state.avoided_nodes()) {
      holders.avoided.insert({avoided.cluster(), avoided.node()});
    }
    holders.gangs.push_back(std::move(gang));
    holders.protected_for.push_back(
        std::max({MinRuntimeOf(model, *job, config.min_runtime) - ran,
                  ProtectedByBudget(model, *job, now), absl::ZeroDuration()}));
  }
  return holders;
}

std::string WordsOf(const Model& model, const JobEntry& job, const Holders& holders,
                    const MovePlan& plan, absl::Time now) {
  std::vector<std::string> named;
  int others = 0;
  for (const Relocation& move : plan.moves) {
    const HeldGang& gang = holders.gangs[move.held];
    const std::string& name = model.FindJob(gang.uid)->spec.name();
    if (ProjectOf(name) != ProjectOf(job.spec.name())) {
      ++others;
      continue;
    }
    const absl::Duration left = holders.protected_for[move.held];
    named.push_back(absl::StrCat(
        name, " (loses ", InWords(gang.unsaved), " of work",
        left > absl::ZeroDuration() ? absl::StrCat(", is protected until ", TimeInWords(now + left))
                                    : "",
        ")"));
  }
  std::sort(named.begin(), named.end());
  if (others > 0) {
    named.push_back(absl::StrCat(others, others == 1 ? " Job" : " Jobs", " of other Projects"));
  }
  const size_t count = plan.moves.size();
  return absl::StrCat("would fit after ", count, count == 1 ? " Job was" : " Jobs were",
                      " moved: ", absl::StrJoin(named, ", "), ", at the cost of ",
                      InWords(absl::Milliseconds(plan.cost)), " of GPU time");
}

}  // namespace

void ExplainMoves(const Model& model, const NodeUsage& usage, const JobEntry& job,
                  const std::vector<NodeStanding>& all_nodes, const CoreConfig& config,
                  absl::Time now, ExplainJobResponse* response) {
  const auto& constraints = response->constraints();
  if (job.state.state() != Job::STATE_QUEUED || !AsksForMig(job.spec.spec()) ||
      std::none_of(constraints.begin(), constraints.end(),
                   [](const auto& constraint) { return constraint.type() == "mig"; })) {
    return;
  }
  const GangRequest request = GangRequest::From(job);
  const std::vector<NodeStanding> nodes = Roomiest(all_nodes, request);
  Holders holders = HoldersOf(model, usage, nodes, config, now);
  std::vector<NodeCapacity> capacities;
  for (const NodeStanding& standing : nodes) {
    NodeCapacity& node = capacities.emplace_back(standing.capacity);
    node.avoided = request.avoided.count(node.id) > 0 || holders.avoided.count(node.id) > 0;
  }
  // First with those that may be moved now, then as if nobody was protected for a time.
  absl::optional<MovePlan> plan;
  bool any_protected = false;
  for (const bool lifted : {false, true}) {
    std::vector<HeldGang> held = holders.gangs;
    for (size_t i = 0; i < held.size(); ++i) {
      const bool is_protected = holders.protected_for[i] > absl::ZeroDuration();
      held[i].preemptible = held[i].preemptible && (lifted || !is_protected);
    }
    const auto placing = TightPlacer().Begin(capacities, held);
    // What ends anyway is enough.
    if (placing->FitsAfterEnding(request)) return;
    const MoveTerms terms(&model, &held, request, config.repartition_act_cost, &GangRequest::From);
    plan = placing->FindMoves(request, terms, std::numeric_limits<int64_t>::max(),
                              /*has_reservation=*/false);
    any_protected = lifted;
    if (plan.has_value()) break;
  }
  if (!plan.has_value()) return;
  std::string words = WordsOf(model, job, holders, *plan, now);
  const absl::Duration cost = absl::Milliseconds(plan->cost);
  if (config.repartition_max_cost <= absl::ZeroDuration()) {
    absl::StrAppend(&words, "; nobody is, since ", kSetting, " is 0");
  } else if (cost > config.repartition_max_cost) {
    absl::StrAppend(&words, "; nobody is, since ", kSetting, " is ",
                    InWords(config.repartition_max_cost));
  } else if (any_protected) {
    absl::Duration last = absl::ZeroDuration();
    for (const Relocation& move : plan->moves) {
      last = std::max(last, holders.protected_for[move.held]);
    }
    absl::StrAppend(&words, "; that may be begun from ", TimeInWords(now + last), " on");
  } else {
    absl::StrAppend(&words, "; one Job is made room for at a time, and the next ",
                    InWords(config.repartition_pause), " later at the earliest, or ",
                    InWords(std::min(config.repartition_pause, kPauseAfterVain)),
                    " after a round that found nobody to move");
  }
  ExplainJobResponse::Constraint& constraint = *response->add_constraints();
  constraint.set_type("mig_repartition");
  constraint.set_level(ExplainJobResponse::Constraint::LEVEL_NODE);
  constraint.set_message(words);
  response->set_summary(absl::StrCat(response->summary(), "; it ", words));
}

}  // namespace capstan::scheduler
