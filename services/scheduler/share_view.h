#ifndef CAPSTAN_SERVICES_SCHEDULER_SHARE_VIEW_H_
#define CAPSTAN_SERVICES_SCHEDULER_SHARE_VIEW_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "libs/metrics/registry.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "services/scheduler/committed_view.h"
#include "services/scheduler/core/share_book.h"
#include "services/scheduler/demand_view.h"

namespace capstan::scheduler {

// What Queues use and are entitled to as of the committed records, on leaders and followers alike,
// and metrics of that. On the strand only.
class ShareView final : public CommittedView::Listener {
 public:
  // Fair shares are found out anew at most this often, and only after a change: with 5,000 Queues
  // that takes some 32 ms of the strand (docs/operations/performance.md).
  static constexpr absl::Duration kPause = absl::Seconds(5);

  // All outlive it. What waits is as `demand` knows it.
  ShareView(CommittedView* view, const DemandView* demand, Strand* strand,
            metrics::Registry* metrics);
  ~ShareView() override;

  // Adds to what is shown of the Queue what it uses and is entitled to.
  void Show(capstan::scheduler::v1::Queue* queue);

  void JobsChanged(const std::set<std::string>& uids) override;
  void NodesChanged(const std::set<NodeId>& nodes) override;
  void QueuesChanged() override;
  void Closing() override {}

 private:
  // After a reading anew it is not known what has changed. True if there was one.
  bool TookAnew();
  void SetJob(const std::string& uid);
  void SetNode(const NodeId& id);
  void Changed();
  void Compute();

  CommittedView* const view_;
  const DemandView* const demand_;
  Strand* const strand_;
  metrics::Gauge error_;
  metrics::Gauge fragmented_;
  metrics::Gauge partial_;
  std::unique_ptr<ShareBook> book_ = std::make_unique<ShareBook>();
  // Of the view's last reading.
  int64_t first_revision_ = -1;
  bool stale_ = false;
  // The next Compute is not before.
  BootTime not_before_ = BootTime::InfinitePast();
  Strand::TimerId timer_ = 0;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_SHARE_VIEW_H_
