#include "services/scheduler/api/demand_watch.h"

#include <utility>

#include "absl/status/status.h"
#include "google/protobuf/util/message_differencer.h"

namespace capstan::scheduler {

using capstan::scheduler::v1::UnmetDemand;
using capstan::scheduler::v1::WatchDemandResponse;

namespace {

// Whether they tell the same; what is held back alone is no news.
bool SameClasses(const UnmetDemand& a, const UnmetDemand& b) {
  UnmetDemand left;
  UnmetDemand right;
  *left.mutable_classes() = a.classes();
  *right.mutable_classes() = b.classes();
  if (a.has_rest()) *left.mutable_rest() = a.rest();
  if (b.has_rest()) *right.mutable_rest() = b.rest();
  return google::protobuf::util::MessageDifferencer::Equals(left, right);
}

}  // namespace

DemandWatch::DemandWatch(const ApiDeps& deps, std::string cluster, Writer writer)
    : deps_(deps), cluster_(std::move(cluster)), writer_(std::move(writer)) {}

void DemandWatch::Start() {
  deps_.demand->Refresh();
  deps_.demand->AddListener(this);
  writer_->NotifyClosed(deps_.strand, [self = shared_from_this()] {
    self->deps_.demand->RemoveListener(self.get());
  });
  DemandChanged();
}

void DemandWatch::DemandChanged() {
  changed_ = true;
  if (waiting_) return;
  waiting_ = true;
  writer_->NotifyDrained(deps_.strand, [self = shared_from_this()] { self->Send(); });
}

void DemandWatch::Closing() { writer_->Finish(absl::UnavailableError("The server is stopping.")); }

void DemandWatch::Send() {
  waiting_ = false;
  if (!std::exchange(changed_, false)) return;
  UnmetDemand demand = deps_.demand->Told(cluster_);
  // It may have changed elsewhere only.
  const bool first = !sent_.has_observe_time();
  if (!first && SameClasses(demand, sent_)) return;
  sent_ = std::move(demand);
  WatchDemandResponse response;
  *response.mutable_demand() = sent_;
  const absl::Status written = writer_->Write(std::move(response));
  if (!written.ok()) writer_->Finish(written);
}

}  // namespace capstan::scheduler
