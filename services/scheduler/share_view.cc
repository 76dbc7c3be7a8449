#include "services/scheduler/share_view.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::Queue;
using capstan::scheduler::v1::QueueUsage;

ShareView::ShareView(CommittedView* view, const DemandView* demand, Strand* strand,
                     metrics::Registry* metrics)
    : view_(view),
      demand_(demand),
      strand_(strand),
      error_(metrics->AddGauge("fair_share_error_ratio",
                               "Part of the fleet that is not where fair shares have it.")),
      fragmented_(metrics->AddGauge("fragmented_accelerators",
                                    "Accelerators that are free and of use to nobody who waits.")),
      partial_(metrics->AddGauge("partial_gangs",
                                 "Gangs that go on with fewer Tasks than their least: none.")) {
  view_->AddListener(this);
}

ShareView::~ShareView() {
  view_->RemoveListener(this);
  if (timer_ != 0) strand_->Cancel(timer_);
}

bool ShareView::TookAnew() {
  if (!view_->ready() || view_->first_revision() == first_revision_) return false;
  first_revision_ = view_->first_revision();
  book_ = std::make_unique<ShareBook>();
  book_->SetQueues(view_->model().queues);
  for (const auto& [id, node] : view_->model().nodes) SetNode(id);
  view_->model().jobs.ForEachLive([this](absl::string_view uid, const JobEntry& job) {
    book_->SetJob(std::string(uid), &job);
  });
  Changed();
  return true;
}

void ShareView::SetJob(const std::string& uid) {
  // Most that change only wait, and are not unpacked for this.
  const auto glance = view_->model().jobs.Glance(uid);
  const bool live = glance.has_value() && glance->live;
  book_->SetJob(uid, live ? view_->model().FindJob(uid) : nullptr);
}

void ShareView::SetNode(const NodeId& id) {
  const auto node = view_->model().nodes.find(id);
  book_->SetNode(id, node == view_->model().nodes.end() ? nullptr : &node->second,
                 view_->usage().Get(id).allocated);
}

void ShareView::JobsChanged(const std::set<std::string>& uids) {
  if (TookAnew()) return;
  for (const std::string& uid : uids) SetJob(uid);
  Changed();
}

void ShareView::NodesChanged(const std::set<NodeId>& nodes) {
  if (TookAnew()) return;
  for (const NodeId& id : nodes) SetNode(id);
  Changed();
}

void ShareView::QueuesChanged() {
  if (TookAnew()) return;
  book_->SetQueues(view_->model().queues);
  Changed();
}

void ShareView::Changed() {
  stale_ = true;
  if (timer_ != 0) return;
  timer_ = strand_->RunAt(std::max(not_before_, strand_->clock().Read().boot), [this] {
    timer_ = 0;
    Compute();
  });
}

void ShareView::Compute() {
  if (!stale_) return;
  not_before_ = strand_->clock().Read().boot + kPause;
  stale_ = false;
  book_->Compute(demand_->WantedNow());
  error_.Set(book_->error());
  fragmented_.Set(static_cast<double>(book_->fragmented()));
  partial_.Set(static_cast<double>(book_->partial()));
}

void ShareView::Show(Queue* queue) {
  // One who asks need not wait for the timer.
  if (stale_ && strand_->clock().Read().boot >= not_before_) Compute();
  const ShareBook::QueueShare share =
      book_->Of(std::string(absl::StripPrefix(queue->name(), "queues/")));
  std::map<std::string, QueueUsage> usage;
  for (const QueueUsage& one : queue->usage()) {
    QueueUsage& shown = usage[one.resource()];
    shown = one;
    // As the record of the past has it, which may be a minute old.
    shown.clear_in_use();
  }
  for (const auto& [resource, amount] : share.amounts) {
    QueueUsage& shown = usage[resource];
    shown.set_resource(resource);
    shown.set_in_use(amount.in_use);
    shown.set_fair_share(amount.fair_share);
  }
  queue->clear_usage();
  for (auto& [resource, one] : usage) *queue->add_usage() = std::move(one);
  queue->set_dominant_share(share.dominant);
  queue->set_fair_dominant_share(share.fair_dominant);
}

}  // namespace capstan::scheduler
