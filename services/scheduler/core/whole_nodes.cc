#include "services/scheduler/core/whole_nodes.h"

namespace capstan::scheduler {

WholeNodes::WholeNodes(const std::vector<NodeStanding>& standings, const NodeUsage& usage) {
  whole_.reserve(standings.size());
  // Both are sorted by id.
  auto used = usage.nodes().begin();
  for (const NodeStanding& standing : standings) {
    const NodeCapacity& node = standing.capacity;
    while (used != usage.nodes().end() && used->first < node.id) ++used;
    Amounts& whole = whole_.emplace(&node, node.free).first->second;
    if (used != usage.nodes().end() && used->first == node.id) whole.Add(used->second.allocated);
  }
}

}  // namespace capstan::scheduler
