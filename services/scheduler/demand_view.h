#ifndef CAPSTAN_SERVICES_SCHEDULER_DEMAND_VIEW_H_
#define CAPSTAN_SERVICES_SCHEDULER_DEMAND_VIEW_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/metrics/registry.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"
#include "proto/capstan/scheduler/v1/capacity_order.pb.h"
#include "proto/capstan/scheduler/v1/demand.pb.h"
#include "services/scheduler/committed_view.h"
#include "services/scheduler/core/demand.h"

namespace capstan::scheduler {

// Unmet demand as of the committed Jobs, on leaders and followers alike, and its metrics. On the
// strand only.
class DemandView final : public CommittedView::Listener {
 public:
  // Changes are told at most this often.
  static constexpr absl::Duration kPause = absl::Seconds(1);

  class Listener {
   public:
    virtual ~Listener() = default;
    // What is told has changed, perhaps.
    virtual void DemandChanged() = 0;
    // The service stops: end what is open.
    virtual void Closing() = 0;
  };

  // All outlive it.
  DemandView(const DemandConfig& config, CommittedView* view, Strand* strand,
             metrics::Registry* metrics);
  ~DemandView() override;

  // Brings what is told up to now, for a reader who begins.
  void Refresh();
  // What is told of Nodes of `cluster`, or of all if it is empty.
  capstan::scheduler::v1::UnmetDemand Told(absl::string_view cluster) const;

  // See DemandBook, as of the committed Jobs.
  std::vector<DemandBook::Wanted> WantedNow() const { return book_.WantedNow(); }

  void AddListener(Listener* listener) { listeners_.insert(listener); }
  void RemoveListener(Listener* listener) { listeners_.erase(listener); }

  void JobsChanged(const std::set<std::string>& uids) override;
  void NodesChanged(const std::set<NodeId>& nodes) override;
  void QueuesChanged() override;
  void OrdersChanged() override;
  void Closing() override;

 private:
  struct Counts {
    metrics::Gauge jobs;
    metrics::Gauge tasks;
  };

  // After a reading anew it is not known what has changed. True if there was one.
  bool TookAnew();
  // For what is due next, if anything.
  void Arm();
  void Advance();
  void Gauges();

  CommittedView* const view_;
  Strand* const strand_;
  DemandBook book_;
  std::map<absl::string_view, Counts> unmet_;              // by reason
  std::map<absl::string_view, metrics::Gauge> held_back_;  // by cause
  std::map<capstan::scheduler::v1::CapacityOrder::State, metrics::Gauge> orders_;
  // Jobs have changed since the last Advance.
  bool stale_ = false;
  // Of the view's last reading.
  int64_t first_revision_ = -1;
  absl::Time as_of_ = absl::UnixEpoch();
  // The next Advance is not before.
  BootTime not_before_ = BootTime::InfinitePast();
  BootTime armed_for_ = BootTime::InfiniteFuture();
  Strand::TimerId timer_ = 0;
  std::set<Listener*> listeners_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_DEMAND_VIEW_H_
