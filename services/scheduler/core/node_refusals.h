#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_NODE_REFUSALS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_NODE_REFUSALS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/partial_fit.h"
#include "services/scheduler/core/placer.h"

namespace capstan::scheduler {

// Nodes that a gang may not be on by their labels or taints, by what is first in the way.
class NodeRefusals {
 public:
  struct One {
    // `node_requirements` or `taint`.
    absl::string_view type;
    // What follows `1 of 2 nodes `, and `2 of 2 nodes `.
    std::string singular;
    std::string plural;
    std::vector<NodeId> nodes;
  };

  // Whether it is one of them; if so it is counted.
  bool Count(const NodeCapacity& node, const GangRequest& gang);
  // Those that the group of the gang's first Task that does not fit may not be on.
  void CountOf(const PartialFit& fit, const capstan::scheduler::v1::JobSpec& spec,
               const GangRequest& gang);

  // Requirements in their order, the gang's first; then taints, by key and value: of more than
  // kMaxTaintsNamed kinds the others as one.
  std::vector<One> all() const;

 private:
  static constexpr size_t kMaxTaintsNamed = 8;

  std::map<int, One> gang_;                            // by position of the requirement
  std::map<int, One> group_;                           // likewise
  std::map<std::string, std::vector<NodeId>> taints_;  // by taint in words
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_NODE_REFUSALS_H_
