#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_PARTIAL_FIT_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_PARTIAL_FIT_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/optional.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// What a Node has free, less what was put there; the Node stays where and as it is meanwhile.
class Room {
 public:
  explicit Room(const NodeCapacity* node) : node_(node) {}

  const NodeCapacity& node() const { return *node_; }
  const Amounts& free() const { return left_.has_value() ? *left_ : node_->free; }
  void Take(const Amounts& amounts, int64_t times = 1) {
    // On most Nodes nothing is ever put, and there are many of them.
    if (!left_.has_value()) left_ = node_->free;
    left_->Subtract(amounts, times);
  }

 private:
  const NodeCapacity* node_;
  absl::optional<Amounts> left_;
};

// As many Tasks of the gang as fit into one domain that it may be in, and what is left then.
struct PartialFit {
  int placed = 0;
  // The group of the first Task that does not fit; -1 if all do.
  int group = -1;
  // What that Task asks.
  Amounts next;
  // Eligible Nodes that the group may be on and what they have free after that.
  std::vector<Room> left;
  // Nodes whose labels do not meet what the group asks for, by the position of the first of its
  // requirements that they do not meet.
  std::map<int, std::vector<NodeId>> unmet;
  // Eligible Nodes in no domain of a level that the group or a section around it must be in one of.
  // By depth of that (topology_levels.h).
  std::map<int, std::vector<NodeId>> outside;
  // Of a group in slices: the narrowest that fits into no domain any more, and how many of its
  // Tasks one takes at most. -1: the group has none.
  int slice = -1;
  int64_t slice_holds = 0;
  // A Node of the domain that takes most; null if there is no domain.
  const NodeCapacity* slice_node = nullptr;
};

// `nodes`: those of one domain that the gang may be on. For words, not for placing: groups are put
// down in order, each section and group into the domain that holds most of it.
PartialFit FitWhatFits(const GangRequest& gang, const std::vector<const NodeCapacity*>& nodes);

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_PARTIAL_FIT_H_
