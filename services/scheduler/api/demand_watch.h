#ifndef CAPSTAN_SERVICES_SCHEDULER_API_DEMAND_WATCH_H_
#define CAPSTAN_SERVICES_SCHEDULER_API_DEMAND_WATCH_H_

#include <memory>
#include <string>

#include "libs/rpc/server_stream.h"
#include "proto/capstan/scheduler/v1/demand.pb.h"
#include "proto/capstan/scheduler/v1/node.pb.h"
#include "services/scheduler/api/api_deps.h"

namespace capstan::scheduler {

// One WatchDemand stream: unmet demand whole, at once and whenever it has changed. While the peer
// reads slowly nothing is kept for it; it gets what is so by then. On the strand.
class DemandWatch final : public DemandView::Listener,
                          public std::enable_shared_from_this<DemandWatch> {
 public:
  using Writer =
      std::shared_ptr<rpc::ServerStreamWriter<capstan::scheduler::v1::WatchDemandResponse>>;

  // `cluster`: of which Nodes; empty: of all.
  DemandWatch(const ApiDeps& deps, std::string cluster, Writer writer);

  void Start();

  void DemandChanged() override;
  void Closing() override;

 private:
  void Send();

  const ApiDeps deps_;
  const std::string cluster_;
  const Writer writer_;
  // Something may have changed since it was sent, or was never sent.
  bool changed_ = false;
  // For the peer, which has not read all.
  bool waiting_ = false;
  capstan::scheduler::v1::UnmetDemand sent_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_API_DEMAND_WATCH_H_
