#include "services/scheduler/core/round/workspace.h"

#include <utility>

namespace capstan::scheduler::round {

void Workspace::Load(std::shared_ptr<const Snapshot> snapshot) {
  const std::shared_ptr<const Snapshot> old = std::exchange(snapshot_, std::move(snapshot));
  beyond_.clear();
  rows_.ClearBounds();
  if (old == nullptr || old->node_set != snapshot_->node_set ||
      old->dimensions != snapshot_->dimensions) {
    journal_.clear();
    standings_.clear();
    now_.clear();
    rows_.Reset(*snapshot_);
    return;
  }
  for (const Entry& entry : journal_) {
    rows_.Assign(entry.position, snapshot_->nodes[rows_.node(entry.position)].free);
  }
  journal_.clear();
  snapshot_->nodes.VisitChanges(old->nodes, [this](size_t first, size_t last) {
    for (size_t n = first; n < last; ++n) {
      const int position = rows_.position(static_cast<NodeIndex>(n));
      if (position >= 0) rows_.Assign(position, snapshot_->nodes[n].free);
    }
  });
}

const std::shared_ptr<const Standings>& Workspace::StandingsOf(ConstraintsId id) {
  if (standings_.size() <= id) standings_.resize(id + 1);
  if (standings_[id] == nullptr) {
    const Constraints& constraints = snapshot_->constraints[id];
    auto standings = std::make_shared<Standings>(rows_.size());
    for (int p = 0; p < rows_.size(); ++p) {
      Standing& standing = (*standings)[p];
      switch (Admit(rows_.traits(p), constraints)) {
        case Admission::kSelector:
          standing = Standing::kSelector;
          break;
        case Admission::kTaint:
          standing = Standing::kTaint;
          break;
        case Admission::kAdmitted:
          standing = rows_.schedulable(p) ? Standing::kAdmitted : Standing::kUnschedulable;
          break;
      }
    }
    standings_[id] = std::move(standings);
  }
  return standings_[id];
}

const ClassIndex& Workspace::Index(ClassId id, Plane plane) {
  auto& indexes = plane == Plane::kNow ? now_ : beyond_;
  if (indexes.size() <= id) indexes.resize(snapshot_->classes.size());
  std::unique_ptr<ClassIndex>& index = indexes[id];
  if (index == nullptr) {
    const TaskClass& task_class = snapshot_->classes[id];
    index = std::make_unique<ClassIndex>(&rows_, task_class.request,
                                         StandingsOf(task_class.constraints), plane);
  } else {
    index->Sync();
  }
  return *index;
}

void Workspace::Apply(const Entry& entry, int64_t sign) {
  const Request& request = snapshot_->classes[entry.id].request;
  rows_.Add(entry.position, request, -sign * entry.count);
  if (entry.plane == Plane::kBeyondReservation) {
    rows_.AddToBound(entry.position, request, -sign * entry.count);
  }
}

void Workspace::Take(int position, ClassId id, int64_t count, Plane plane) {
  journal_.push_back({position, id, count, plane});
  Apply(journal_.back(), 1);
}

void Workspace::Give(const GangShape& shape, absl::Span<const TaskRun> runs, int sign) {
  for (const TaskRun& run : runs) {
    const int position = rows_.position(run.node);
    if (position < 0) continue;
    Take(position, shape.groups[run.group].task_class, -int64_t{sign} * run.count, Plane::kNow);
  }
}

void Workspace::SetBound(int position, const ResourceVector& bound) {
  rows_.SetBound(position, bound);
}

void Workspace::UndoTo(size_t mark) {
  while (journal_.size() > mark) {
    Apply(journal_.back(), -1);
    journal_.pop_back();
  }
}

}  // namespace capstan::scheduler::round
