#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_NODE_ROWS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_NODE_ROWS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/optional.h"
#include "libs/mig/layouts.h"
#include "services/scheduler/core/round/fleet.h"

namespace capstan::scheduler::round {

// Positions [first, last).
struct Range {
  int first = 0;
  int last = 0;

  int size() const { return last - first; }
  friend bool operator==(const Range&, const Range&) = default;
};

// Which of a node's free amounts a gang may take.
enum class Plane : uint8_t {
  // All that is free now.
  kNow,
  // Of that, what a gang may hold past the start of the one that room is reserved for.
  kBeyondReservation,
};

// What a gang that stays past a reservation's start may take of a node.
struct NodeBound {
  ResourceVector left{};
  // By GPU in MIG mode: what stands there then.
  std::vector<mig::Instances> gpus;
};

// Free amounts of the nodes as a dense table that a round works on. A node's *position* is its rank
// in the order of topology paths, so that a domain of any level is a range of positions. Keeps
// which nodes changed last, newest first. For one thread.
class NodeRows {
 public:
  // Takes over all nodes of the snapshot, which must outlive this.
  void Reset(const Snapshot& snapshot);

  int size() const { return static_cast<int>(nodes_.size()); }
  int width() const { return width_; }
  NodeIndex node(int position) const { return nodes_[position]; }
  // -1 if the node is not there.
  int position(NodeIndex node) const { return node < positions_.size() ? positions_[node] : -1; }
  const NodeTraits& traits(int position) const { return *traits_[position]; }
  bool schedulable(int position) const { return schedulable_[position] != 0; }
  // `width()` amounts.
  const int64_t* free(int position) const {
    return free_.data() + static_cast<size_t>(position) * width_;
  }
  int64_t available(int position, Dimension dimension, Plane plane) const;
  // By GPU in MIG mode: what stands there.
  const std::vector<mig::Instances>& gpus(int position) const;
  // How many instances of the profile fit. O(GPUs).
  int64_t Room(int position, const mig::Ask& ask, Plane plane) const;
  // Where the next one goes: see mig::ChooseInstance.
  absl::optional<InstancePlace> Choose(int position, const mig::Ask& ask, Plane plane) const;

  // Adds `times` of the request to what is free.
  void Add(int position, const Request& request, int64_t times);
  // An instance stands there from now on, or no more.
  void SetInstance(int position, const InstancePlace& place, bool stands);
  // Takes over what is free. True if that had to be changed.
  bool Assign(int position, const NodeSlot& slot);

  // Bounds what kBeyondReservation may take of a node, free or not.
  void SetBound(int position, const NodeBound& bound);
  void AddToBound(int position, const Request& request, int64_t times);
  void SetInstanceInBound(int position, const InstancePlace& place, bool stands);
  void ClearBounds();

  // Raised by every change; `changed(p)` is its value at the last change of p.
  uint64_t sequence() const { return sequence_; }
  uint64_t changed(int position) const { return changed_[position]; }
  // The node changed last, and from one to the one changed before it; -1 at the end.
  int newest() const { return newest_; }
  int older(int position) const { return older_[position]; }

  const std::vector<Range>& domains(Level level) const { return domains_[static_cast<int>(level)]; }
  // Index into `domains(level)`; -1 if the node is in none.
  int domain_of(Level level, int position) const {
    return domain_of_[static_cast<int>(level)][position];
  }

 private:
  void FindDomains();
  // Where an instance may be added to the GPU.
  uint32_t Addable(int position, size_t gpu, Plane plane) const;
  void Touch(int position);

  int width_ = 0;
  std::vector<NodeIndex> nodes_;
  std::vector<int> positions_;
  std::vector<std::shared_ptr<const NodeTraits>> traits_;
  std::vector<uint8_t> schedulable_;
  std::vector<int64_t> free_;
  // By position; empty if no node has any.
  std::vector<std::vector<mig::Instances>> gpus_;
  // By position: index into bounds_, or -1.
  std::vector<int> bound_of_;
  std::vector<NodeBound> bounds_;
  std::vector<int> bounded_;
  std::array<std::vector<Range>, kLevels> domains_;
  std::array<std::vector<int>, kLevels> domain_of_;
  // The order of changes, as a doubly linked list.
  uint64_t sequence_ = 0;
  std::vector<uint64_t> changed_;
  std::vector<int> older_;
  std::vector<int> newer_;
  int newest_ = -1;
};

}  // namespace capstan::scheduler::round

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_ROUND_NODE_ROWS_H_
