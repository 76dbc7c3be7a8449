#include "services/scheduler/demand_view.h"

#include <algorithm>
#include <map>
#include <utility>

#include "libs/time/proto_time.h"
#include "services/scheduler/core/capacity_orders.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::CapacityOrder;

DemandView::DemandView(const DemandConfig& config, CommittedView* view, Strand* strand,
                       metrics::Registry* metrics)
    : view_(view), strand_(strand), book_(config) {
  for (const absl::string_view reason : DemandBook::Reasons()) {
    const metrics::Labels labels = {{"reason", std::string(reason)}};
    unmet_.emplace(
        reason,
        Counts{metrics->AddGauge("unmet_gangs", "Gangs told of that wait for Nodes.", labels),
               metrics->AddGauge("unmet_tasks", "Tasks of those gangs.", labels)});
  }
  for (const absl::string_view cause : DemandBook::Causes()) {
    held_back_.emplace(
        cause, metrics->AddGauge("held_back_jobs",
                                 "Jobs that wait and are no unmet demand, by what they wait for.",
                                 {{"cause", std::string(cause)}}));
  }
  for (const auto& [state, name] : {std::pair(CapacityOrder::STATE_OPEN, "OPEN"),
                                    std::pair(CapacityOrder::STATE_NOMINATED, "NOMINATED"),
                                    std::pair(CapacityOrder::STATE_USED, "USED")}) {
    orders_.emplace(state,
                    metrics->AddGauge("capacity_orders", "Orders of capacity that are not void.",
                                      {{"state", name}}));
  }
  view_->AddListener(this);
}

DemandView::~DemandView() {
  view_->RemoveListener(this);
  if (timer_ != 0) strand_->Cancel(timer_);
}

capstan::scheduler::v1::UnmetDemand DemandView::Told(absl::string_view cluster) const {
  capstan::scheduler::v1::UnmetDemand demand = book_.Told(cluster);
  demand.set_revision(view_->revision());
  *demand.mutable_observe_time() = ToProto(as_of_);
  return demand;
}

bool DemandView::TookAnew() {
  if (!view_->ready() || view_->first_revision() == first_revision_) return false;
  first_revision_ = view_->first_revision();
  book_.Reset(view_->model().jobs, strand_->clock().Read());
  return true;
}

void DemandView::JobsChanged(const std::set<std::string>& uids) {
  if (!TookAnew()) {
    const Now now = strand_->clock().Read();
    for (const std::string& uid : uids) book_.Update(uid, view_->model().FindJob(uid), now);
  }
  // What waits for no Nodes is counted too.
  stale_ = true;
  Arm();
}

void DemandView::NodesChanged(const std::set<NodeId>&) {
  if (!TookAnew()) return;
  stale_ = true;
  Arm();
}

void DemandView::QueuesChanged() {
  TookAnew();
  book_.SetQueues(view_->model().queues, strand_->clock().Read());
  stale_ = true;
  Arm();
}

void DemandView::OrdersChanged() {
  stale_ = true;
  Arm();
}

void DemandView::Refresh() {
  const Now now = strand_->clock().Read();
  as_of_ = now.wall;
  if (stale_ || book_.NextDue() <= now.boot) Advance();
}

void DemandView::Closing() {
  const std::set<Listener*> listeners = listeners_;
  for (Listener* listener : listeners) listener->Closing();
}

void DemandView::Arm() {
  const BootTime next = std::max(not_before_, stale_ ? BootTime::InfinitePast() : book_.NextDue());
  if (timer_ != 0 && armed_for_ <= next) return;
  if (timer_ != 0) strand_->Cancel(timer_);
  timer_ = 0;
  if (next == BootTime::InfiniteFuture()) return;
  armed_for_ = next;
  timer_ = strand_->RunAt(next, [this] {
    timer_ = 0;
    Advance();
  });
}

void DemandView::Advance() {
  const Now now = strand_->clock().Read();
  not_before_ = now.boot + kPause;
  as_of_ = now.wall;
  stale_ = false;
  const bool changed = book_.Advance(now);
  Gauges();
  Arm();
  if (!changed) return;
  const std::set<Listener*> listeners = listeners_;
  for (Listener* listener : listeners) {
    if (listeners_.count(listener) > 0) listener->DemandChanged();
  }
}

void DemandView::Gauges() {
  for (const auto& [reason, count] : book_.ToldByReason()) {
    Counts& counts = unmet_.at(reason);
    counts.jobs.Set(static_cast<double>(count.jobs));
    counts.tasks.Set(static_cast<double>(count.tasks));
  }
  std::map<CapacityOrder::State, int> orders;
  for (const auto& [id, record] : view_->model().capacity_orders) {
    ++orders[RenderCapacityOrder(record, /*nodes_come=*/0).state()];
  }
  for (auto& [state, gauge] : orders_) gauge.Set(orders[state]);
  for (const auto& [cause, count] : book_.HeldBack()) {
    held_back_.at(cause).Set(static_cast<double>(count.jobs));
  }
}

}  // namespace capstan::scheduler
