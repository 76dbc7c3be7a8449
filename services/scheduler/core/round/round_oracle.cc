#include "services/scheduler/core/round/round_oracle.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/status/status_macros.h"

namespace capstan::scheduler::round {
namespace {

absl::Status Broken(absl::string_view rule) { return absl::FailedPreconditionError(rule); }

// Goes through the order as a round does, on a ledger of its own.
class Walk {
 public:
  Walk(const Snapshot& snapshot, const Proposal& proposal, const RoundChecks& checks)
      : snapshot_(snapshot), proposal_(proposal), checks_(checks), ledger_(snapshot) {
    for (const Start& start : proposal.starts) starts_[start.gang] = &start;
    for (const Preemption& preemption : proposal.preemptions) {
      preemptions_[preemption.preemptor] = &preemption;
    }
    for (const Wait& wait : proposal.waits) waits_.insert(wait.gang);
  }

  absl::Status Visit(GangIndex gang) {
    const GangShape& shape = ShapeOf(gang);
    const auto start = starts_.find(gang);
    const auto preemption = preemptions_.find(gang);
    const size_t fates = (start != starts_.end() ? 1 : 0) +
                         (preemption != preemptions_.end() ? 1 : 0) + waits_.count(gang);
    if (snapshot_.gangs[gang].state != GangState::kPending || fates != 1) {
      return Broken(absl::StrCat("gang ", gang, " has ", fates, " fates"));
    }
    if (start != starts_.end()) return ledger_.Place(shape, start->second->runs);
    if (preemption != preemptions_.end()) return CheckPreemption(*preemption->second, shape);
    return absl::OkStatus();
  }

  absl::Status CheckWaits() const {
    for (const Wait& wait : proposal_.waits) {
      const Obstacle obstacle = proposal_.reasons[wait.reason].obstacle;
      const bool by_room = obstacle == Obstacle::kRoom || obstacle == Obstacle::kTopology ||
                           obstacle == Obstacle::kPacking || obstacle == Obstacle::kNeverFits;
      const GangShape& shape = ShapeOf(wait.gang);
      // What is free at the end of the round was free at this gang's turn.
      if (by_room && CanCount(shape) && CountsToFit(snapshot_, shape, ledger_.free())) {
        return Broken(absl::StrCat("gang ", wait.gang, " waits though it fits"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckGrowths() {
    for (const Start& growth : proposal_.growths) {
      const auto start = starts_.find(growth.gang);
      const Gang& gang = snapshot_.gangs[growth.gang];
      if (start == starts_.end() && gang.state != GangState::kRunning) {
        return Broken("a gang grows that does not run");
      }
      CAPSTAN_RETURN_IF_ERROR(
          ledger_.Grow(ShapeOf(growth.gang),
                       start == starts_.end() ? *gang.runs : start->second->runs, growth.runs));
    }
    return absl::OkStatus();
  }

 private:
  const GangShape& ShapeOf(GangIndex gang) const {
    return *snapshot_.shapes[snapshot_.gangs[gang].shape];
  }

  // What would be free if these victims had gone.
  std::vector<ResourceVector> FreeWithout(const std::vector<GangIndex>& victims,
                                          GangIndex but) const {
    FreeLedger copy = ledger_;
    for (GangIndex victim : victims) {
      if (victim != but) copy.Release(ShapeOf(victim), *snapshot_.gangs[victim].runs);
    }
    return copy.free();
  }

  absl::Status CheckPreemption(const Preemption& preemption, const GangShape& shape) {
    constexpr GangIndex kNone = std::numeric_limits<GangIndex>::max();
    if (preemption.needs.size() != preemption.victims.size()) {
      return Broken("not each victim has a reason");
    }
    for (GangIndex victim : preemption.victims) {
      if (snapshot_.gangs[victim].state != GangState::kRunning || !victims_.insert(victim).second) {
        return Broken(absl::StrCat("victim ", victim, " does not run, or twice"));
      }
    }
    if (checks_.minimal && CanCount(shape)) {
      if (CountsToFit(snapshot_, shape, FreeWithout({}, kNone))) {
        return Broken("victims for a gang that fits");
      }
      for (size_t i = 0; i < preemption.victims.size(); ++i) {
        const GangIndex victim = preemption.victims[i];
        const int64_t fit = MostThatFit(snapshot_, shape, FreeWithout(preemption.victims, victim));
        if (fit >= shape.min_tasks) {
          return Broken(absl::StrCat("victim ", victim, " could have stayed"));
        }
        if (preemption.needs[i] != Need{Need::Kind::kRoom, fit}) {
          return Broken(absl::StrCat("it is not said of victim ", victim, " that with it only ",
                                     fit, " would fit"));
        }
      }
    }
    for (GangIndex victim : preemption.victims) {
      ledger_.Release(ShapeOf(victim), *snapshot_.gangs[victim].runs);
    }
    CAPSTAN_RETURN_IF_ERROR(ledger_.Place(shape, preemption.runs));
    // Their room is nobody's before they have gone.
    for (GangIndex victim : preemption.victims) {
      for (const TaskRun& run : *snapshot_.gangs[victim].runs) {
        const TaskRun taken = {run.node, run.group, -run.count};
        ledger_.Release(ShapeOf(victim), {&taken, 1});
      }
    }
    return absl::OkStatus();
  }

  const Snapshot& snapshot_;
  const Proposal& proposal_;
  const RoundChecks& checks_;
  FreeLedger ledger_;
  std::map<GangIndex, const Start*> starts_;
  std::map<GangIndex, const Preemption*> preemptions_;
  std::set<GangIndex> waits_;
  std::set<GangIndex> victims_;
};

void DescribeRuns(const std::vector<TaskRun>& runs, std::string& words) {
  for (const TaskRun& run : runs) {
    absl::StrAppend(&words, " ", run.group, ":", run.node, "x", run.count);
  }
}

}  // namespace

bool CanCount(const GangShape& shape) {
  for (size_t g = 0; g < shape.groups.size(); ++g) {
    if (g > 0 && shape.groups[g].required.has_value()) return false;
    if (shape.is_leaf(static_cast<int>(g)) &&
        (shape.groups[g].task_class != shape.groups.back().task_class ||
         shape.groups[g].slices != shape.groups.back().slices)) {
      return false;
    }
  }
  return true;
}

namespace {

// A node's names and how many tasks it takes.
struct Taker {
  std::array<std::string, kLevels> path;
  int64_t takes = 0;
};

std::map<std::string, std::vector<Taker>> ByDomain(const std::vector<Taker>& nodes, Level level) {
  std::map<std::string, std::vector<Taker>> domains;
  for (const Taker& node : nodes) {
    if (node.path[static_cast<int>(level)].empty()) continue;
    std::string domain;
    for (int l = 0; l <= static_cast<int>(level); ++l) absl::StrAppend(&domain, node.path[l], "/");
    domains[domain].push_back(node);
  }
  return domains;
}

// Tasks in whole slices, from the given one on.
int64_t CountSlices(const std::vector<Taker>& nodes, const std::vector<Slice>& slices, size_t at) {
  int64_t count = 0;
  if (at == slices.size()) {
    for (const Taker& node : nodes) count += node.takes;
    return count;
  }
  for (const auto& [domain, in] : ByDomain(nodes, slices[at].level)) {
    count += CountSlices(in, slices, at + 1) / slices[at].size * slices[at].size;
  }
  return count;
}

}  // namespace

int64_t MostThatFit(const Snapshot& snapshot, const GangShape& shape,
                    absl::Span<const ResourceVector> free) {
  const TaskClass& task_class = snapshot.classes[shape.groups.back().task_class];
  std::vector<Taker> nodes;
  for (size_t n = 0; n < snapshot.nodes.size(); ++n) {
    const NodeSlot& slot = snapshot.nodes[n];
    if (slot.traits == nullptr || !slot.schedulable) continue;
    if (Admit(*slot.traits, snapshot.constraints[task_class.constraints]) != Admission::kAdmitted) {
      continue;
    }
    int64_t fit = shape.min_tasks;
    for (const Quantity& q : task_class.request) {
      fit = std::min(fit, std::max<int64_t>(free[n][q.dimension], 0) / q.amount);
    }
    nodes.push_back({slot.traits->path, fit});
  }
  int64_t most = 0;
  for (const auto& [domain, in] : ByDomain(nodes, *shape.groups[0].required)) {
    most = std::max(most, CountSlices(in, shape.groups.back().slices, 0));
  }
  return most;
}

bool CountsToFit(const Snapshot& snapshot, const GangShape& shape,
                 absl::Span<const ResourceVector> free) {
  return MostThatFit(snapshot, shape, free) >= shape.min_tasks;
}

absl::Status CheckRound(const Snapshot& snapshot, absl::Span<const GangIndex> order,
                        const Proposal& proposal, const RoundChecks& checks) {
  if (proposal.version != snapshot.version) return Broken("a proposal on another version");
  if (proposal.starts.size() + proposal.preemptions.size() + proposal.waits.size() !=
      order.size()) {
    return Broken("a gang without a fate, or one of none that waits");
  }
  Walk walk(snapshot, proposal, checks);
  for (GangIndex gang : order) CAPSTAN_RETURN_IF_ERROR(walk.Visit(gang));
  if (checks.complete) CAPSTAN_RETURN_IF_ERROR(walk.CheckWaits());
  return walk.CheckGrowths();
}

std::string Describe(const Proposal& proposal) {
  std::string words = absl::StrCat("version ", proposal.version);
  for (const Start& start : proposal.starts) {
    absl::StrAppend(&words, "\nstart ", start.gang);
    DescribeRuns(start.runs, words);
  }
  for (const Preemption& preemption : proposal.preemptions) {
    absl::StrAppend(&words, "\npreempt for ", preemption.preemptor, " at ", preemption.cost);
    DescribeRuns(preemption.runs, words);
    for (GangIndex victim : preemption.victims) absl::StrAppend(&words, " v", victim);
  }
  for (const Start& growth : proposal.growths) {
    absl::StrAppend(&words, "\ngrow ", growth.gang);
    DescribeRuns(growth.runs, words);
  }
  if (proposal.reservation.has_value()) {
    absl::StrAppend(&words, "\nreserve for ", proposal.reservation->gang, " at ",
                    absl::ToUnixNanos(proposal.reservation->start), " ",
                    int{proposal.reservation->assumed});
    DescribeRuns(proposal.reservation->runs, words);
  }
  for (const Wait& wait : proposal.waits) {
    const Reason& reason = proposal.reasons[wait.reason];
    absl::StrAppend(&words, "\nwait ", wait.gang, " ", static_cast<int>(reason.obstacle), " ",
                    reason.refusal.queue, " ", int{reason.refusal.dimension}, " ", reason.group,
                    " ", reason.wanted, " ", reason.best, " ", reason.nodes_with_room);
    for (const NodeCount& count : reason.nodes) {
      absl::StrAppend(&words, " ", static_cast<int>(count.obstacle), ".", int{count.dimension}, "=",
                      count.nodes);
    }
  }
  return words;
}

}  // namespace capstan::scheduler::round
