#include "services/scheduler/core/tight_placer.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "services/scheduler/core/round/fleet.h"
#include "services/scheduler/core/round/gang_placer.h"
#include "services/scheduler/core/round/workspace.h"

namespace capstan::scheduler {
namespace {

using round::Fleet;
using round::GangShape;
using round::Level;

// Names that a Node's own labels cannot have.
constexpr char kClusterLabel[] = "/cluster";
constexpr char kSubmitterTaint[] = "/submitter";

class TightRound final : public PlacingRound {
 public:
  explicit TightRound(const std::vector<NodeCapacity>& nodes) {
    std::set<std::string> accelerators;
    for (const NodeCapacity& node : nodes) {
      for (const auto& [name, count] : node.free.accelerators) accelerators.insert(name);
    }
    for (const std::string& name : accelerators) {
      if (!fleet_.dimensions().Intern(name).ok()) break;
    }
    for (const NodeCapacity& node : nodes) {
      const round::NodeIndex index = fleet_.AddNode(TraitsOf(node, node.only_submitter));
      fleet_.SetSchedulable(index, node.eligible);
      unisolated_.push_back(node.unisolated && !node.only_submitter);
    }
    workspace_.Load(fleet_.Freeze());
  }

  absl::optional<GangPlacement> Place(const GangRequest& gang) override {
    const absl::optional<round::ShapeId> id = ShapeOf(gang);
    if (!id.has_value()) return absl::nullopt;
    workspace_.Load(fleet_.Freeze());
    const GangShape& shape = fleet_.shape(*id);
    const auto runs = round::GangPlacer(&workspace_, 0).Place(shape, round::Plane::kNow);
    if (!runs.has_value()) return absl::nullopt;
    round::Gang entry;
    entry.shape = *id;
    if (!fleet_.Start(fleet_.AddGang(entry), *runs, absl::InfinitePast()).ok()) {
      return absl::nullopt;
    }
    GangPlacement placement;
    for (const round::TaskRun& run : *runs) {
      placement.insert(placement.end(), static_cast<size_t>(run.count), static_cast<int>(run.node));
      if (unisolated_[run.node]) TakeForOne(run.node, gang.submitter);
    }
    return placement;
  }

 private:
  round::NodeTraits TraitsOf(const NodeCapacity& node,
                             const absl::optional<std::string>& only_submitter) const {
    round::NodeTraits traits;
    traits.path = {node.id.cluster,   node.topology.region, node.topology.zone,
                   node.topology.row, node.topology.rack,   node.topology.nvlink_domain,
                   node.id.node};
    traits.labels = {{kClusterLabel, node.id.cluster}};
    if (only_submitter.has_value()) traits.taints = {{kSubmitterTaint, *only_submitter}};
    traits.allocatable[round::kCpuMillis] = node.free.cpu_millis;
    traits.allocatable[round::kMemoryBytes] = node.free.memory_bytes;
    for (const auto& [name, count] : node.free.accelerators) {
      const int dimension = fleet_.dimensions().Find(name);
      if (dimension >= 0) traits.allocatable[dimension] = count;
    }
    return traits;
  }

  void TakeForOne(round::NodeIndex node, const std::string& submitter) {
    round::NodeTraits traits = *fleet_.node(node).traits;
    traits.taints = {{kSubmitterTaint, submitter}};
    fleet_.ReplaceNode(node, std::move(traits));
    unisolated_[node] = false;
  }

  // absl::nullopt if it asks for what no Node has.
  absl::optional<round::ShapeId> ShapeOf(const GangRequest& gang) {
    round::Constraints constraints;
    constraints.tolerations = {{kSubmitterTaint, false, gang.submitter}};
    if (!gang.clusters.empty()) {
      constraints.selector = {{kClusterLabel, {gang.clusters.begin(), gang.clusters.end()}, false}};
    }
    GangShape shape;
    shape.groups.emplace_back();
    shape.groups[0].preferred = Level::kNvlinkDomain;
    for (const GangRequest::Group& group : gang.groups) {
      round::Request request = {{round::kCpuMillis, group.each.cpu_millis},
                                {round::kMemoryBytes, group.each.memory_bytes}};
      for (const auto& [name, count] : group.each.accelerators) {
        const int dimension = fleet_.dimensions().Find(name);
        if (dimension < 0) return absl::nullopt;
        request.push_back({static_cast<round::Dimension>(dimension), count});
      }
      GangShape::Group leaf;
      leaf.parent = 0;
      leaf.task_class = fleet_.InternClass(constraints, std::move(request));
      leaf.min = leaf.max = group.replicas;
      shape.groups.push_back(leaf);
    }
    // One group is the root itself, which then may be spread domain by domain.
    if (gang.groups.size() == 1) {
      shape.groups[1].parent = -1;
      shape.groups[1].preferred = shape.groups[0].preferred;
      shape.groups.erase(shape.groups.begin());
    }
    const auto id = fleet_.InternShape(std::move(shape));
    if (!id.ok()) return absl::nullopt;
    return *id;
  }

  Fleet fleet_;
  round::Workspace workspace_;
  // By node: becomes its first submitter's.
  std::vector<bool> unisolated_;
};

}  // namespace

std::unique_ptr<PlacingRound> TightPlacer::Begin(const std::vector<NodeCapacity>& nodes) const {
  return std::make_unique<TightRound>(nodes);
}

}  // namespace capstan::scheduler
