// Orders of capacity as values: whose they are, and which Nodes are of them.
#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_CAPACITY_ORDERS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_CAPACITY_ORDERS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/status/error.h"
#include "proto/capstan/scheduler/v1/capacity_order.pb.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {

// On a Node: id of the order that brought it.
inline constexpr char kOrderLabel[] = "capstan.dev/order";

inline constexpr size_t kMaxCapacityOrders = 256;
inline constexpr int kMaxOrderedNodes = 10'000;
inline constexpr absl::Duration kMinOrderLife = absl::Minutes(1);
inline constexpr absl::Duration kMaxOrderLife = absl::Hours(24 * 7);
inline constexpr size_t kMaxOrderReasonBytes = 256;

// Adds everything that is wrong with a request, clock and state aside, with paths below `order`.
void ValidateCapacityOrder(absl::string_view order_id,
                           const capstan::scheduler::v1::CapacityOrder& order,
                           status::FieldErrors* errors);

// What of it depends on the clock and on what is there: INVALID_ARGUMENT with the fields.
absl::Status CheckNewOrder(const Model& model, const capstan::scheduler::v1::CapacityOrder& order,
                           absl::Time now);

// Id of the order that the Node is of: one that is there, for its Cluster. "" if of none.
std::string OrderOfNode(const Model& model, const NodeId& id, const rec::NodeRecord& node);

// By id of the order, how many of its Nodes have come; without those of which none has.
std::map<std::string, int> NodesCome(const Model& model);

// A Job, which outlives it, with what orders ask about it: found out once.
class OrderSeeker {
 public:
  explicit OrderSeeker(const JobEntry& job) : job_(job) {}

  // Whether the order could be its: nobody is nominated, and it is the Job that the order names or,
  // once that one does not come to wait for it, of its demand class; and it may run in its Cluster.
  bool MayHave(const Model& model, const rec::CapacityOrderRecord& record);

 private:
  const JobEntry& job_;
  std::string class_id_;
  std::vector<std::string> clusters_;
};

// Whether the Job could have used the Nodes and have gone before they are all expected. `duration`:
// how long it holds its place at most.
bool IsOverInTime(const rec::CapacityOrderRecord& record, absl::Duration duration, absl::Time now);

capstan::scheduler::v1::CapacityOrder RenderCapacityOrder(const rec::CapacityOrderRecord& record,
                                                          int nodes_come);

// `; 3 of 8 Nodes of capacityOrders/x have come and are kept for it` for each order that the Job is
// nominated for.
std::string OrdersInWords(const Model& model, absl::string_view uid);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_CAPACITY_ORDERS_H_
