#include "services/scheduler/core/preemption_outlook.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "libs/time/proto_time.h"
#include "services/scheduler/core/disruptions.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/held_gangs.h"
#include "services/scheduler/core/queue_victims.h"
#include "services/scheduler/core/tight_placer.h"

namespace capstan::scheduler {
namespace {

using rec::GangHeadRecord;
using Hindrance = capstan::scheduler::v1::ExplainJobResponse::Hindrance;

// What runs on some Nodes.
struct Held {
  std::vector<HeldGang> gangs;
  // By position: for how long yet it may not be ended, by its Queue's min_runtime and budget.
  std::vector<absl::Duration> runtime_left;
  std::vector<absl::Duration> budget_left;

  absl::Duration protected_for(int at) const { return std::max(runtime_left[at], budget_left[at]); }
};

Held HeldOn(const Model& model, const NodeUsage& usage,
            const std::vector<const NodeStanding*>& nodes, const CoreConfig& config,
            absl::Time now) {
  const auto position_of = [&nodes](const NodeId& id) {
    const auto at = std::lower_bound(
        nodes.begin(), nodes.end(), id,
        [](const NodeStanding* node, const NodeId& wanted) { return node->capacity.id < wanted; });
    if (at == nodes.end() || (*at)->capacity.id != id) return -1;
    return static_cast<int>(at - nodes.begin());
  };
  std::set<std::string> uids;
  for (const NodeStanding* node : nodes) {
    const std::set<std::string>& there = usage.Get(node->capacity.id).jobs;
    uids.insert(there.begin(), there.end());
  }
  Held held;
  for (const std::string& uid : uids) {
    const JobEntry* const job = model.FindJob(uid);
    const auto used = usage.shares().find(uid);
    if (job == nullptr || !job->live() || used == usage.shares().end()) continue;
    HeldFacts facts;
    std::vector<std::pair<int, Amounts>> shares;
    for (const auto& [id, share] : used->second) {
      const int at = position_of(id);
      if (at < 0) continue;
      facts.any_silent = facts.any_silent || nodes[at]->silent;
      facts.evicted_in = std::min(facts.evicted_in, nodes[at]->evicts_in);
      shares.emplace_back(at, share.amounts);
    }
    if (job->gang->head.phase() == GangHeadRecord::PHASE_STARTED) {
      facts.ran = std::max(now - ToTime(job->state.start_time()), absl::ZeroDuration());
    }
    facts.comes_back = IsGrowing(*job);
    HeldGang gang = HeldGangOf(*job, facts);
    gang.shares = std::move(shares);
    SplitHeld(*job, std::move(gang), position_of, &held.gangs);
    const absl::Duration runtime_left =
        std::max(MinRuntimeOf(model, *job, config.min_runtime) - facts.ran, absl::ZeroDuration());
    held.runtime_left.resize(held.gangs.size(), runtime_left);
    held.budget_left.resize(held.gangs.size(), ProtectedByBudget(model, *job, now));
  }
  return held;
}

// The Queues' rules, of those that may end at all; or those that may, whatever the Queues say.
class LaxRules final : public VictimRules {
 public:
  LaxRules(QueueVictims* rules, std::vector<bool> may_end, bool heeds_queues)
      : rules_(rules), may_end_(std::move(may_end)), heeds_queues_(heeds_queues) {}

  bool MayEvict(int held) const override {
    return may_end_[held] && (!heeds_queues_ || rules_->MayEvict(held));
  }
  std::vector<int> Together(const std::vector<int>& held) const override {
    return heeds_queues_ ? rules_->Together(held) : held;
  }
  void SetEnded(int held, bool ended) override { rules_->SetEnded(held, ended); }
  bool MayStart() const override { return !heeds_queues_ || rules_->MayStart(); }

 private:
  QueueVictims* const rules_;
  const std::vector<bool> may_end_;
  const bool heeds_queues_;
};

class Hindrances {
 public:
  void Add(Hindrance::Kind kind, absl::Time until = absl::InfinitePast()) {
    auto& [count, last] = all_[kind];
    ++count;
    last = std::max(last, until);
  }
  bool empty() const { return all_.empty(); }
  std::vector<Hindrance> All() const {
    std::vector<Hindrance> all;
    for (const auto& [kind, what] : all_) {
      Hindrance& hindrance = all.emplace_back();
      hindrance.set_kind(kind);
      hindrance.set_job_count(what.first);
      if (what.second != absl::InfinitePast()) *hindrance.mutable_until() = ToProto(what.second);
    }
    return all;
  }

 private:
  std::map<Hindrance::Kind, std::pair<int, absl::Time>> all_;
};

}  // namespace

PreemptionOutlook LookForVictims(const Model& model, const NodeUsage& usage, const JobEntry& job,
                                 const GangRequest& request,
                                 const std::vector<const NodeStanding*>& nodes,
                                 const QueueSight& sight, const CoreConfig& config,
                                 absl::Time now) {
  PreemptionOutlook outlook;
  const absl::optional<QueueVictims::Gang> claimant = sight.book->ClaimantOf(job);
  if (!claimant.has_value() || nodes.empty()) return outlook;
  const Held held = HeldOn(model, usage, nodes, config, now);
  const std::vector<QueueVictims::Gang> gangs = sight.book->GangsOf(held.gangs);
  std::vector<NodeCapacity> capacities;
  for (const NodeStanding* node : nodes) {
    capacities.push_back(node->capacity);
    capacities.back().avoided = request.avoided.count(node->capacity.id) > 0;
  }
  const std::unique_ptr<PlacingRound> placing = TightPlacer().Begin(capacities, held.gangs);
  const bool may_start =
      sight.book->VictimsFor(*claimant, sight.capacity, sight.free, gangs).MayStart();
  if (may_start && placing->FitsAfterEnding(request)) return outlook;
  // Nobody knows when its Queues let it.
  if (may_start) outlook.alone = placing->Reserve(request);

  enum class Pass { kNow, kLater, kAnyone };
  std::vector<int> found;
  Pass pass = Pass::kNow;
  for (const Pass tried : {Pass::kNow, Pass::kLater, Pass::kAnyone}) {
    std::vector<bool> may_end(held.gangs.size());
    for (size_t i = 0; i < held.gangs.size(); ++i) {
      const bool too_early = held.protected_for(static_cast<int>(i)) > absl::ZeroDuration();
      may_end[i] = held.gangs[i].preemptible && !held.gangs[i].ending && gangs[i].leaf >= 0 &&
                   (tried != Pass::kNow || !too_early);
    }
    QueueVictims rules = sight.book->VictimsFor(*claimant, sight.capacity, sight.free, gangs);
    LaxRules lax(&rules, std::move(may_end), tried != Pass::kAnyone);
    found.clear();
    for (const Victim& victim : placing->FindVictims(request, job.spec.spec().priority(), &lax)) {
      found.push_back(victim.held);
    }
    pass = tried;
    if (!found.empty()) break;
  }
  if (found.empty()) return outlook;

  QueueVictims rules = sight.book->VictimsFor(*claimant, sight.capacity, sight.free, gangs);
  Hindrances hindrances;
  absl::Duration longest = absl::ZeroDuration();
  for (const int at : found) {
    // With the rest of it all of a gang ends, whichever of the two is named first.
    const bool is_spare = held.gangs[at].is_spare;
    const auto [victim, is_new] = outlook.victims.emplace(held.gangs[at].uid, is_spare);
    victim->second = victim->second && is_spare;
    if (!is_new) continue;
    if (pass == Pass::kAnyone && !rules.MayEvict(at)) {
      hindrances.Add(gangs[at].leaf == claimant->leaf ? Hindrance::KIND_PRIORITY
                                                      : Hindrance::KIND_GUARANTEE);
      continue;
    }
    longest = std::max(longest, held.protected_for(at));
    if (held.runtime_left[at] > absl::ZeroDuration()) {
      hindrances.Add(Hindrance::KIND_MIN_RUNTIME, now + held.runtime_left[at]);
    }
    if (held.budget_left[at] > absl::ZeroDuration()) {
      hindrances.Add(Hindrance::KIND_DISRUPTION_BUDGET, now + held.budget_left[at]);
    }
  }
  if (pass == Pass::kAnyone) {
    for (const int at : found) rules.SetEnded(at, true);
    if (!rules.MayStart()) {
      hindrances.Add(Hindrance::KIND_LIMIT);
    } else if (hindrances.empty()) {
      // Each may, but not all of them.
      for (size_t i = 0; i < outlook.victims.size(); ++i) {
        hindrances.Add(Hindrance::KIND_GUARANTEE);
      }
    }
  } else if (longest > absl::ZeroDuration()) {
    outlook.from = now + longest;
  }
  outlook.hindrances = hindrances.All();
  return outlook;
}

}  // namespace capstan::scheduler
