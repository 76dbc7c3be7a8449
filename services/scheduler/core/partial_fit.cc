#include "services/scheduler/core/partial_fit.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/types/optional.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/topology_levels.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Topology;
using Rooms = std::vector<Room*>;

// By domain of the level, which is one; `outside` gets the Nodes that are in none.
std::map<std::string, Rooms> ByDomain(const Rooms& rooms, Topology::Level level,
                                      std::vector<NodeId>* outside) {
  std::map<std::string, Rooms> domains;
  for (Room* room : rooms) {
    std::string domain = DomainOf(room->node(), level);
    if (!domain.empty()) {
      domains[std::move(domain)].push_back(room);
    } else if (outside != nullptr) {
      outside->push_back(room->node().id);
    }
  }
  return domains;
}

// How many of the group's Tasks, at most `limit`, the Node has room for.
int64_t FitOn(const Room& room, const GangRequest::Group& group, int64_t limit) {
  if (FirstUnmet(room.node(), group.node_requirements) >= 0) return 0;
  return room.free().Fits(group.each, limit);
}

// Takes room for so many Tasks, which fit.
void TakeRoom(const Amounts& each, int64_t count, Room* room) {
  const auto ask = each.mig.ask();
  if (!ask.has_value()) return room->Take(each, count);
  for (int64_t i = 0; i < count; ++i) room->Take(WithInstance(each, room->free().mig.Choose(*ask)));
}

// Up to so many Tasks of the group, from that slice on in whole ones: how many there is room for,
// which is taken if `take`.
int64_t FitInto(const GangRequest::Group& group, size_t slice, const Rooms& rooms, int64_t wanted,
                bool take) {
  int64_t fit = 0;
  if (slice == group.slices.size()) {
    for (Room* room : rooms) {
      if (fit == wanted) break;
      const int64_t here = FitOn(*room, group, wanted - fit);
      if (take && here > 0) TakeRoom(group.each, here, room);
      fit += here;
    }
    return fit;
  }
  const int64_t size = group.slices[slice].size;
  for (const auto& [name, in] : ByDomain(rooms, group.slices[slice].level, nullptr)) {
    const int64_t here = FitInto(group, slice + 1, in, wanted - fit, false) / size * size;
    if (take && here > 0) FitInto(group, slice + 1, in, here, true);
    fit += here;
  }
  return fit;
}

class Fitting {
 public:
  Fitting(const GangRequest& gang, const std::vector<const NodeCapacity*>& nodes)
      : gang_(gang), sections_(gang.sections.size()), outside_(gang.sections.size()) {
    rooms_.reserve(nodes.size());
    for (const NodeCapacity* node : nodes) rooms_.emplace_back(node);
    for (Room& room : rooms_) all_.push_back(&room);
    for (size_t g = 0; g < gang.groups.size(); ++g) {
      for (int s = gang.groups[g].section; s >= 0; s = gang.sections[s].parent) {
        below_[s].push_back(static_cast<int>(g));
      }
    }
  }

  PartialFit Run() {
    PartialFit fit;
    for (size_t g = 0; g < gang_.groups.size(); ++g) {
      const GangRequest::Group& group = gang_.groups[g];
      std::vector<NodeId> outside;
      const Rooms in = Best(SectionRooms(group.section), group.topology.required(),
                            {static_cast<int>(g)}, &outside);
      const int64_t taken = FitInto(group, 0, in, group.replicas, true);
      fit.placed += static_cast<int>(taken);
      if (taken == group.replicas) continue;
      fit.group = static_cast<int>(g);
      fit.next = group.each;
      FindSlice(group, in, &fit);
      fit.left.reserve(in.size());
      for (Room& room : rooms_) {
        const int unmet = FirstUnmet(room.node(), group.node_requirements);
        if (unmet >= 0) fit.unmet[unmet].push_back(room.node().id);
      }
      for (Room* room : in) {
        if (FirstUnmet(room->node(), group.node_requirements) >= 0) continue;
        fit.left.push_back(std::move(*room));
      }
      if (!outside.empty()) fit.outside[DepthOf(group.topology.required())] = std::move(outside);
      for (int s = group.section; s >= 0; s = gang_.sections[s].parent) {
        if (outside_[s].empty()) continue;
        fit.outside[DepthOf(gang_.sections[s].topology.required())] = std::move(outside_[s]);
      }
      return fit;
    }
    return fit;
  }

 private:
  // Of the domains of the level: of those that hold all of the groups, each by itself, the one with
  // least room, else the one that holds most.
  Rooms Best(const Rooms& rooms, Topology::Level level, const std::vector<int>& groups,
             std::vector<NodeId>* outside) const {
    if (level == Topology::LEVEL_UNSPECIFIED) return rooms;
    int64_t wanted = 0;
    for (int g : groups) wanted += gang_.groups[g].replicas;
    Rooms best;
    std::pair<int64_t, int64_t> best_fits = {-1, 0};
    for (auto& [name, in] : ByDomain(rooms, level, outside)) {
      int64_t fits = 0;
      int64_t room = 0;
      for (int g : groups) {
        const GangRequest::Group& group = gang_.groups[g];
        fits += FitInto(group, 0, in, group.replicas, false);
        for (const Room* one : in) room += FitOn(*one, group, group.replicas);
      }
      const bool better = best_fits.first >= wanted ? fits >= wanted && room < best_fits.second
                                                    : fits > best_fits.first;
      if (!better) continue;
      best_fits = {fits, room};
      best = std::move(in);
    }
    return best;
  }

  const Rooms& SectionRooms(int section) {
    if (section < 0) return all_;
    absl::optional<Rooms>& rooms = sections_[section];
    if (!rooms.has_value()) {
      const GangRequest::Section& s = gang_.sections[section];
      rooms =
          Best(SectionRooms(s.parent), s.topology.required(), below_[section], &outside_[section]);
    }
    return *rooms;
  }

  static void FindSlice(const GangRequest::Group& group, const Rooms& in, PartialFit* fit) {
    for (size_t s = group.slices.size(); s > 0; --s) {
      const GangRequest::Slice& slice = group.slices[s - 1];
      int64_t most = 0;
      fit->slice_node = nullptr;
      for (const auto& [name, rooms] : ByDomain(in, slice.level, nullptr)) {
        const int64_t here = FitInto(group, s, rooms, slice.size, false);
        if (here > most || fit->slice_node == nullptr) fit->slice_node = &rooms.front()->node();
        most = std::max(most, here);
      }
      if (most >= slice.size) continue;
      fit->slice = static_cast<int>(s) - 1;
      fit->slice_holds = most;
      return;
    }
  }

  const GangRequest& gang_;
  std::vector<Room> rooms_;
  Rooms all_;
  // By section: the groups below it, its Nodes once they are chosen, and those in no domain.
  std::map<int, std::vector<int>> below_;
  std::vector<absl::optional<Rooms>> sections_;
  std::vector<std::vector<NodeId>> outside_;
};

}  // namespace

PartialFit FitWhatFits(const GangRequest& gang, const std::vector<const NodeCapacity*>& nodes) {
  return Fitting(gang, nodes).Run();
}

}  // namespace capstan::scheduler
