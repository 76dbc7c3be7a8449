#include "services/scheduler/core/round/placement_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/mig/layouts.h"
#include "libs/mig/state_table.h"
#include "libs/status/status_macros.h"

namespace capstan::scheduler::round {
namespace {

absl::Status Broken(absl::string_view rule) { return absl::FailedPreconditionError(rule); }

}  // namespace

bool IsWithin(const GangShape& shape, int group, int ancestor) {
  while (group >= 0 && group != ancestor) group = shape.groups[group].parent;
  return group == ancestor;
}

FreeLedger::FreeLedger(const Snapshot& snapshot) : snapshot_(snapshot) {
  for (size_t n = 0; n < snapshot.nodes.size(); ++n) {
    free_.push_back(snapshot.nodes[n].free);
    std::vector<std::vector<int>>& gpus = instances_.emplace_back();
    for (const mig::Instances& instances : snapshot.nodes[n].gpus) {
      std::vector<int>& positions = gpus.emplace_back();
      for (int p = 0; p < 32; ++p) {
        if ((instances.once >> p & 1) != 0) positions.push_back(p);
        if ((instances.twice >> p & 1) != 0) positions.push_back(p);
      }
    }
  }
}

absl::Status FreeLedger::CheckCounts(const GangShape& shape, absl::Span<const TaskRun> runs) const {
  std::map<int, int64_t> counts;
  for (const TaskRun& run : runs) {
    if (run.group < 0 || run.group >= static_cast<int>(shape.groups.size())) {
      return Broken("a run of no group");
    }
    if (run.count <= 0) return Broken("an empty run");
    counts[run.group] += run.count;
  }
  std::set<int> parents;
  for (const GangShape::Group& group : shape.groups) parents.insert(group.parent);
  for (int g = 0; g < static_cast<int>(shape.groups.size()); ++g) {
    const bool leaf = parents.count(g) == 0;
    const GangShape::Group& group = shape.groups[g];
    if (!leaf && counts[g] != 0) return Broken("a run of an inner group");
    if (leaf && (counts[g] < group.min || counts[g] > group.max)) {
      return Broken(absl::StrCat("group ", g, " has ", counts[g], " tasks"));
    }
  }
  return absl::OkStatus();
}

absl::Status FreeLedger::CheckAdmission(const GangShape& shape,
                                        absl::Span<const TaskRun> runs) const {
  for (const TaskRun& run : runs) {
    if (run.node >= snapshot_.nodes.size() || snapshot_.nodes[run.node].traits == nullptr) {
      return Broken("a run on no node");
    }
    const NodeSlot& slot = snapshot_.nodes[run.node];
    if (!slot.schedulable) return Broken("a node that takes nothing");
    const TaskClass& task_class = snapshot_.classes[shape.groups[run.group].task_class];
    if (Admit(*slot.traits, snapshot_.constraints[task_class.constraints]) !=
        Admission::kAdmitted) {
      return Broken("a node that does not admit the task");
    }
  }
  return absl::OkStatus();
}

std::string FreeLedger::DomainOf(NodeIndex node, int level) const {
  const auto& path = snapshot_.nodes[node].traits->path;
  if (path[level].empty()) return "";
  std::string domain;
  for (int l = 0; l <= level; ++l) absl::StrAppend(&domain, path[l].size(), ":", path[l]);
  return domain;
}

absl::Status FreeLedger::CheckSlices(const GangShape& shape, absl::Span<const TaskRun> runs) const {
  for (int g = 0; g < static_cast<int>(shape.groups.size()); ++g) {
    std::vector<NodeIndex> by_rank;
    for (const TaskRun& run : runs) {
      if (run.group == g) by_rank.insert(by_rank.end(), run.count, run.node);
    }
    for (const Slice& slice : shape.groups[g].slices) {
      if (by_rank.size() % slice.size != 0) return Broken(absl::StrCat("group ", g, " has a part"));
      for (size_t rank = 0; rank < by_rank.size(); ++rank) {
        const size_t first = rank - rank % slice.size;
        const std::string domain = DomainOf(by_rank[rank], static_cast<int>(slice.level));
        if (domain.empty()) return Broken("a node in no domain of a slice's level");
        if (domain == DomainOf(by_rank[first], static_cast<int>(slice.level))) continue;
        return Broken(
            absl::StrCat("group ", g, ": ranks ", first, " and ", rank, " of one slice are apart"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status FreeLedger::CheckTopology(const GangShape& shape,
                                       absl::Span<const TaskRun> runs) const {
  CAPSTAN_RETURN_IF_ERROR(CheckSlices(shape, runs));
  for (int g = 0; g < static_cast<int>(shape.groups.size()); ++g) {
    if (!shape.groups[g].required.has_value()) continue;
    const int level = static_cast<int>(*shape.groups[g].required);
    std::set<std::string> domains;
    for (const TaskRun& run : runs) {
      if (!IsWithin(shape, run.group, g)) continue;
      std::string domain = DomainOf(run.node, level);
      if (domain.empty()) return Broken(absl::StrCat("a node in no domain of level ", level));
      domains.insert(std::move(domain));
    }
    if (domains.size() > 1) {
      return Broken(
          absl::StrCat("group ", g, " is in ", domains.size(), " domains of level ", level));
    }
  }
  return absl::OkStatus();
}

absl::Status FreeLedger::CheckGpu(NodeIndex node, size_t gpu) const {
  const mig::StateTable& table =
      mig::Layouts::Of(snapshot_.nodes[node].traits->gpus[gpu].model).table();
  std::vector<mig::Position> positions;
  for (int p : instances_[node][gpu]) positions.push_back(table.positions()[p]);
  return table.FromPositions(positions).status();
}

absl::Status FreeLedger::TakeRoom(const GangShape& shape, absl::Span<const TaskRun> runs) {
  for (const TaskRun& run : runs) {
    AddTo(free_[run.node], snapshot_.classes[shape.groups[run.group].task_class].request,
          -int64_t{run.count});
    if (run.instance.is_one()) {
      instances_[run.node][run.instance.gpu].push_back(run.instance.position);
    }
  }
  for (const TaskRun& run : runs) {
    const absl::optional<mig::Ask>& ask = snapshot_.classes[shape.groups[run.group].task_class].ask;
    absl::Status good = absl::OkStatus();
    if (ask.has_value()) {
      const auto& gpus = snapshot_.nodes[run.node].traits->gpus;
      const bool is_asked =
          run.instance.is_one() && run.count == 1 && gpus[run.instance.gpu].model == ask->model &&
          mig::Layouts::Of(ask->model).table().positions()[run.instance.position].profile ==
              ask->profile;
      if (!is_asked) good = Broken(absl::StrCat("not what was asked of node ", run.node));
    }
    if (good.ok() && run.instance.is_one()) good = CheckGpu(run.node, run.instance.gpu);
    if (good.ok()) continue;
    Release(shape, runs);
    return good;
  }
  for (const TaskRun& run : runs) {
    for (const Quantity& q : snapshot_.classes[shape.groups[run.group].task_class].request) {
      if (free_[run.node][q.dimension] >= 0) continue;
      Release(shape, runs);
      return Broken(absl::StrCat("node ", run.node, " is over-committed"));
    }
  }
  return absl::OkStatus();
}

absl::Status FreeLedger::Place(const GangShape& shape, absl::Span<const TaskRun> runs) {
  CAPSTAN_RETURN_IF_ERROR(CheckCounts(shape, runs));
  CAPSTAN_RETURN_IF_ERROR(CheckAdmission(shape, runs));
  CAPSTAN_RETURN_IF_ERROR(CheckTopology(shape, runs));
  return TakeRoom(shape, runs);
}

absl::Status FreeLedger::Grow(const GangShape& shape, absl::Span<const TaskRun> has,
                              absl::Span<const TaskRun> more) {
  std::vector<TaskRun> all(has.begin(), has.end());
  all.insert(all.end(), more.begin(), more.end());
  CAPSTAN_RETURN_IF_ERROR(CheckCounts(shape, all));
  CAPSTAN_RETURN_IF_ERROR(CheckAdmission(shape, more));
  CAPSTAN_RETURN_IF_ERROR(CheckTopology(shape, all));
  return TakeRoom(shape, more);
}

void FreeLedger::Release(const GangShape& shape, absl::Span<const TaskRun> runs) {
  for (const TaskRun& run : runs) {
    AddTo(free_[run.node], snapshot_.classes[shape.groups[run.group].task_class].request,
          run.count);
    if (!run.instance.is_one()) continue;
    std::vector<int>& positions = instances_[run.node][run.instance.gpu];
    positions.erase(std::find(positions.begin(), positions.end(), run.instance.position));
  }
}

}  // namespace capstan::scheduler::round
