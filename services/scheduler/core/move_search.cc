#include "services/scheduler/core/move_search.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "services/scheduler/core/round/gang_placer.h"
#include "services/scheduler/core/round/preemption.h"

namespace capstan::scheduler {
namespace {

using round::Fleet;
using round::GangIndex;

// Bounds of one plan, whose places are stored, and of how many are tried.
constexpr size_t kMaxMoves = 32;
constexpr int kMaxMovedTasks = 512;
constexpr int kMaxPlans = 4;

// The position among those held that names the gang of this part.
int WholeOf(const MoveScene& scene, GangIndex part) {
  const int at = scene.held_of(part);
  return (*scene.is_spare)[at] ? at - 1 : at;
}

std::vector<GangIndex> PartsOf(const MoveScene& scene, int held) {
  std::vector<GangIndex> parts;
  const auto add = [&](size_t at) {
    if ((*scene.held)[at].has_value()) parts.push_back(*(*scene.held)[at]);
  };
  const size_t at = static_cast<size_t>(held);
  add(at);
  if (at + 1 < scene.held->size() && (*scene.is_spare)[at + 1]) add(at + 1);
  return parts;
}

class MovingRules final : public round::EvictionRules {
 public:
  MovingRules(const MoveScene& scene, const MoveRules& rules) : scene_(scene), rules_(rules) {}

  bool MayEvict(GangIndex victim) const override {
    return rules_.CostOf(WholeOf(scene_, victim)).has_value();
  }
  std::vector<GangIndex> Together(std::vector<GangIndex> candidates) const override {
    return candidates;
  }
  // They keep what their queues let them have, and the one that waits may have its own beside it.
  void SetEnded(GangIndex, bool) override {}
  bool MayStart() const override { return true; }
  // Either part of a gang costs half.
  absl::optional<int64_t> CostOf(GangIndex victim) const override {
    const int whole = WholeOf(scene_, victim);
    const int64_t cost = *rules_.CostOf(whole);
    return PartsOf(scene_, whole).size() > 1 ? (cost + 1) / 2 : cost;
  }
  uint64_t RankOf(GangIndex victim) const override {
    return static_cast<uint64_t>(scene_.held_of(victim));
  }

 private:
  const MoveScene& scene_;
  const MoveRules& rules_;
};

// Slices and devices that its Tasks ask for.
int64_t SizeOf(const GangRequest& gang) {
  int64_t size = 0;
  for (const GangRequest::Group& group : gang.groups) {
    for (const auto& [name, count] : group.each.accelerators) size += count * group.replicas;
  }
  return size;
}

// Adds to `choice`, which has the one that waits, whom it would have moved. False if there is
// nobody, or if they are too many.
bool AddVictims(const MoveScene& scene, const MoveRules& rules,
                const absl::flat_hash_set<GangIndex>& excluded, MoveChoice* choice) {
  Fleet& fleet = scene.placing_fleet->fleet();
  round::Gang pending;
  pending.shape = choice->parts[0].shape;
  const GangIndex index = fleet.AddGang(pending);
  scene.prepare();
  round::GangPlacer placer(scene.workspace, 0);
  MovingRules moving(scene, rules);
  const auto found = round::FindVictims(*scene.workspace, placer, moving, {}, excluded, index,
                                        kRoundStart, choice->parts[0].plane);
  fleet.RemoveGang(index);
  if (!found.has_value()) return false;
  // By size and position, the largest first: who is small finds a place more easily.
  std::map<std::pair<int64_t, int>, GangRequest> moves;
  std::set<int> seen;
  int tasks = 0;
  for (GangIndex victim : found->victims) {
    const int held = WholeOf(scene, victim);
    if (!seen.insert(held).second) continue;
    GangRequest request = scene.placing_fleet->WithDelay(rules.RequestOf(held));
    for (const GangRequest::Group& group : request.groups) tasks += group.replicas;
    choice->cost += *rules.CostOf(held);
    moves.emplace(std::make_pair(-SizeOf(request), held), std::move(request));
  }
  if (moves.size() > kMaxMoves || tasks > kMaxMovedTasks) return false;
  for (auto& [order, request] : moves) {
    const absl::optional<round::ShapeId> shape = scene.placing_fleet->ShapeOf(request);
    if (!shape.has_value()) return false;
    const round::Plane plane = scene.plane_of(request);
    choice->parts.push_back({order.second, std::move(request), *shape, plane});
    for (GangIndex part : PartsOf(scene, order.second)) choice->leaving.push_back(part);
  }
  return true;
}

// Finds a place for each as if all had ended; the number of those that have one until the first
// that has none.
size_t PlaceAll(const MoveScene& scene, MoveChoice* choice) {
  const Fleet& fleet = scene.placing_fleet->fleet();
  scene.prepare();
  for (GangIndex part : choice->leaving) {
    const round::Gang& gang = fleet.gang(part);
    scene.workspace->Give(fleet.shape(gang.shape), *gang.runs, 1);
  }
  size_t placed = 0;
  for (MoveChoice::Part& part : choice->parts) {
    auto runs = round::GangPlacer(scene.workspace, 0).Place(fleet.shape(part.shape), part.plane);
    if (!runs.has_value()) break;
    part.runs = *std::move(runs);
    ++placed;
  }
  return placed;
}

}  // namespace

absl::optional<MoveChoice> ChooseMoves(const MoveScene& scene, const GangRequest& gang,
                                       const MoveRules& rules, int64_t max_cost) {
  const GangRequest delayed = scene.placing_fleet->WithDelay(gang);
  const absl::optional<round::ShapeId> shape = scene.placing_fleet->ShapeOf(delayed);
  if (!shape.has_value()) return absl::nullopt;
  absl::flat_hash_set<GangIndex> excluded;
  for (int tried = 0; tried < kMaxPlans; ++tried) {
    MoveChoice choice;
    choice.parts.push_back({-1, gang, *shape, scene.plane_of(gang)});
    if (!AddVictims(scene, rules, excluded, &choice)) return absl::nullopt;
    const size_t placed = PlaceAll(scene, &choice);
    if (placed == choice.parts.size()) {
      return choice.cost <= max_cost ? absl::make_optional(std::move(choice)) : absl::nullopt;
    }
    if (placed == 0) return absl::nullopt;
    for (GangIndex part : PartsOf(scene, choice.parts[placed].held)) excluded.insert(part);
  }
  return absl::nullopt;
}

}  // namespace capstan::scheduler
