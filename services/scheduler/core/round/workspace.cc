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
    rows_.Assign(entry.position, snapshot_->nodes[rows_.node(entry.position)]);
  }
  journal_.clear();
  snapshot_->nodes.VisitChanges(old->nodes, [this](size_t first, size_t last) {
    for (size_t n = first; n < last; ++n) {
      const int position = rows_.position(static_cast<NodeIndex>(n));
      if (position >= 0) rows_.Assign(position, snapshot_->nodes[n]);
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
    index = std::make_unique<ClassIndex>(&rows_, task_class, StandingsOf(task_class.constraints),
                                         plane);
  } else {
    index->Sync();
  }
  return *index;
}

void Workspace::Apply(const Entry& entry, int64_t sign) {
  const Request& request = snapshot_->classes[entry.id].request;
  rows_.Add(entry.position, request, -sign * entry.count);
  const bool stands = sign * entry.count > 0;
  if (entry.instance.is_one()) rows_.SetInstance(entry.position, entry.instance, stands);
  if (entry.plane == Plane::kBeyondReservation) {
    rows_.AddToBound(entry.position, request, -sign * entry.count);
    if (entry.instance.is_one()) rows_.SetInstanceInBound(entry.position, entry.instance, stands);
  }
}

void Workspace::Take(int position, ClassId id, int64_t count, Plane plane, InstancePlace instance) {
  journal_.push_back({position, id, count, plane, instance});
  Apply(journal_.back(), 1);
}

InstancePlace Workspace::TakeInstance(int position, ClassId id, Plane plane) {
  const InstancePlace place = *rows_.Choose(position, *snapshot_->classes[id].ask, plane);
  Take(position, id, 1, plane, place);
  return place;
}

void Workspace::Give(const GangShape& shape, absl::Span<const TaskRun> runs, int sign) {
  for (const TaskRun& run : runs) {
    const int position = rows_.position(run.node);
    if (position < 0) continue;
    Take(position, shape.groups[run.group].task_class, -int64_t{sign} * run.count, Plane::kNow,
         run.instance);
  }
}

void Workspace::SetBound(int position, const NodeBound& bound) { rows_.SetBound(position, bound); }

void Workspace::UndoTo(size_t mark) {
  while (journal_.size() > mark) {
    Apply(journal_.back(), -1);
    journal_.pop_back();
  }
}

}  // namespace capstan::scheduler::round
