#include "libs/mig/repartition.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/mig/state_table.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::mig {
namespace {

// Holder of an instance that was granted to the wanted profile of index kGranted - holder.
constexpr int kGranted = -2;

enum class Fate { kKept, kMoved, kEvicted };

absl::Status WrongRequest(const std::string& message) {
  return status::Error(absl::StatusCode::kInvalidArgument, "WRONG_REPARTITION", message);
}

uint32_t Bit(int position) { return uint32_t{1} << position; }

// An instance in the world: who is to hold it, and for a gang's, which of the request's instances
// its Task came from.
struct Standing {
  int holder = kNobody;
  size_t origin = 0;
};

// The fleet as it will be after the plan so far.
struct World {
  // By GPU, then by position.
  std::vector<std::map<int, Standing>> gpus;
  std::vector<Fate> fates;
};

// Something that needs an instance on the GPU looked at.
struct Item {
  int profile = 0;
  // As Standing::holder.
  int holder = kNobody;
  size_t origin = 0;
};

// A place for each item; absent: on another GPU.
using Places = std::vector<absl::optional<int>>;

class Planner {
 public:
  Planner(const Packing& packing, const RepartitionRequest& request)
      : packing_(packing), table_(packing.table()), request_(request) {
    world_.gpus.resize(request.gpus);
    world_.fates.assign(request.gangs.size(), Fate::kKept);
    for (size_t i = 0; i < request.instances.size(); ++i) {
      const Instance& instance = request.instances[i];
      world_.gpus[instance.place.gpu][instance.place.position] = {instance.holder, i};
    }
  }

  absl::optional<RepartitionPlan> Plan() {
    std::vector<int> order(request_.wanted.size());
    std::iota(order.begin(), order.end(), 0);
    absl::c_stable_sort(order, [this](int a, int b) { return Size(a) > Size(b); });
    if (request_.gpus == 1) {
      if (!Serve(order)) return absl::nullopt;
    } else {
      for (const int wanted : order) {
        if (!Serve({wanted})) return absl::nullopt;
      }
    }
    return Written();
  }

 private:
  struct Change {
    int64_t cost = std::numeric_limits<int64_t>::max();
    // Ties: what it takes of the GPU's worth.
    int64_t loss = 0;
    size_t gpu = 0;
    std::map<int, Fate> fates;
    std::vector<Item> items;
    Places places;
    // Of items without a place on the GPU, in their order.
    std::vector<Choice> away;
  };

  int Size(int wanted) const {
    const int profile = request_.wanted[static_cast<size_t>(wanted)];
    return table_.model().profiles[static_cast<size_t>(profile)].memory_slices;
  }

  int64_t CostOf(int gang, Fate fate) const {
    const HoldingGang& of = request_.gangs[static_cast<size_t>(gang)];
    if (fate == Fate::kKept) return 0;
    return fate == Fate::kMoved ? *of.move_cost : *of.evict_cost;
  }

  // The fates that a gang can have from now on.
  std::vector<Fate> FatesOf(int gang) const {
    const HoldingGang& of = request_.gangs[static_cast<size_t>(gang)];
    std::vector<Fate> fates;
    if (world_.fates[static_cast<size_t>(gang)] == Fate::kKept) fates.push_back(Fate::kKept);
    if (of.move_cost.has_value()) fates.push_back(Fate::kMoved);
    if (of.evict_cost.has_value()) fates.push_back(Fate::kEvicted);
    return fates;
  }

  // Finds the cheapest change of one GPU after which these are granted, and makes it.
  bool Serve(const std::vector<int>& wanted) {
    Change best;
    for (size_t gpu = 0; gpu < request_.gpus; ++gpu) SearchGpu(gpu, wanted, best);
    if (best.cost == std::numeric_limits<int64_t>::max()) return false;
    Make(best);
    return true;
  }

  void SearchGpu(size_t gpu, const std::vector<int>& wanted, Change& best) const {
    std::set<int> gangs;
    for (const auto& [position, standing] : world_.gpus[gpu]) {
      if (standing.holder >= 0) gangs.insert(standing.holder);
    }
    std::vector<std::pair<int64_t, std::map<int, Fate>>> combinations = {{0, {}}};
    for (const int gang : gangs) {
      std::vector<std::pair<int64_t, std::map<int, Fate>>> more;
      const int64_t spent = CostOf(gang, world_.fates[static_cast<size_t>(gang)]);
      for (const auto& [cost, fates] : combinations) {
        for (const Fate fate : FatesOf(gang)) {
          more.emplace_back(cost + CostOf(gang, fate) - spent, fates).second[gang] = fate;
        }
      }
      combinations = std::move(more);
    }
    absl::c_sort(combinations);
    for (const auto& [cost, fates] : combinations) {
      if (cost > best.cost) return;
      SearchFates(gpu, wanted, cost, fates, best);
    }
  }

  void SearchFates(size_t gpu, const std::vector<int>& wanted, int64_t cost,
                   const std::map<int, Fate>& fates, Change& best) const {
    Change change;
    change.cost = cost;
    change.gpu = gpu;
    change.fates = fates;
    for (const int index : wanted) {
      change.items.push_back({request_.wanted[static_cast<size_t>(index)], kGranted - index, 0});
    }
    uint32_t kept = 0;
    for (const auto& [position, standing] : world_.gpus[gpu]) {
      if (standing.holder == kNobody) continue;
      const auto fate = fates.find(standing.holder);
      if (fate == fates.end() || fate->second == Fate::kKept) {
        kept |= Bit(position);
      } else if (fate->second == Fate::kMoved) {
        change.items.push_back({table_.positions()[static_cast<size_t>(position)].profile,
                                standing.holder, standing.origin});
      }
    }
    // Alike ones side by side, so that no arrangement is tried twice.
    absl::c_stable_sort(change.items, [](const Item& a, const Item& b) {
      return std::make_tuple(a.holder >= 0, a.profile) < std::make_tuple(b.holder >= 0, b.profile);
    });
    Arrange(*table_.Find(kept), change, best);
  }

  void Arrange(State state, Change& change, Change& best) const {
    if (change.places.size() == change.items.size()) {
      Settle(state, change, best);
      return;
    }
    const size_t at = change.places.size();
    const Item& item = change.items[at];
    const bool as_before = at > 0 && change.items[at - 1].profile == item.profile &&
                           (change.items[at - 1].holder >= 0) == (item.holder >= 0);
    if (!as_before || change.places[at - 1].has_value()) {
      const int from = as_before ? *change.places[at - 1] + 1 : 0;
      for (int i = from; i < static_cast<int>(table_.positions().size()); ++i) {
        if (table_.positions()[static_cast<size_t>(i)].profile != item.profile) continue;
        const absl::optional<State> next = table_.Add(state, i);
        if (!next.has_value()) continue;
        change.places.push_back(i);
        Arrange(*next, change, best);
        change.places.pop_back();
      }
    }
    if (item.holder < 0 || request_.gpus == 1) return;
    change.places.push_back(absl::nullopt);
    Arrange(state, change, best);
    change.places.pop_back();
  }

  // What making an instance at the position costs on a GPU where `held` stay, and what others stand
  // there unused.
  int64_t ActsFor(const std::map<int, Standing>& gpu, uint32_t held, uint32_t added) const {
    int64_t acts = 0;
    for (const auto& [position, standing] : gpu) {
      if ((held & Bit(position)) == 0 && !Stays(held, position)) ++acts;
    }
    for (int i = 0; i < static_cast<int>(table_.positions().size()); ++i) {
      if ((added & Bit(i)) != 0 && gpu.count(i) == 0) ++acts;
    }
    return acts;
  }

  // Whether an unused instance can stay beside those that are held. Unused ones that stay are
  // beside each other already.
  bool Stays(uint32_t held, int position) const {
    return table_.Find(held | Bit(position)).has_value();
  }

  void Settle(State state, Change& change, Change& best) const {
    uint32_t added = 0;
    for (const absl::optional<int>& place : change.places) {
      if (place.has_value()) added |= Bit(*place);
    }
    const uint32_t held = table_.Instances(state);
    const int64_t cost =
        change.cost + request_.act_cost * ActsFor(world_.gpus[change.gpu], held, added);
    const int64_t loss = packing_.Worth(HeldNow(world_.gpus[change.gpu])) - packing_.Worth(state);
    if (std::tie(cost, loss) >= std::tie(best.cost, best.loss)) return;
    Change settled = change;
    settled.cost = cost;
    settled.loss = loss;
    if (!PlaceAway(settled)) return;
    if (std::tie(settled.cost, settled.loss) < std::tie(best.cost, best.loss)) {
      best = std::move(settled);
    }
  }

  State HeldNow(const std::map<int, Standing>& gpu) const {
    uint32_t held = 0;
    for (const auto& [position, standing] : gpu) {
      if (standing.holder != kNobody) held |= Bit(position);
    }
    return *table_.Find(held);
  }

  // Finds free room on other GPUs for the items that have no place on this one: the fewest acts,
  // then the least worth taken.
  bool PlaceAway(Change& change) const {
    std::vector<std::map<int, Standing>> others;
    for (size_t i = 0; i < change.items.size(); ++i) {
      if (change.places[i].has_value()) continue;
      if (others.empty()) others = WithoutEvicted(change);
      const absl::optional<std::pair<Choice, int64_t>> found =
          RoomAway(others, change.gpu, change.items[i].profile);
      if (!found.has_value()) return false;
      change.cost += request_.act_cost * found->second;
      change.away.push_back(found->first);
      Put(others[found->first.gpu], found->first.position, {kGranted, 0});
    }
    return true;
  }

  std::vector<std::map<int, Standing>> WithoutEvicted(const Change& change) const {
    std::vector<std::map<int, Standing>> gpus = world_.gpus;
    for (std::map<int, Standing>& gpu : gpus) {
      for (auto& [position, standing] : gpu) {
        const auto fate = change.fates.find(standing.holder);
        if (fate != change.fates.end() && fate->second == Fate::kEvicted) standing = {};
      }
    }
    return gpus;
  }

  absl::optional<std::pair<Choice, int64_t>> RoomAway(
      const std::vector<std::map<int, Standing>>& gpus, size_t except, int profile) const {
    absl::optional<std::pair<Choice, int64_t>> best;
    std::pair<int64_t, int64_t> least;
    for (size_t gpu = 0; gpu < gpus.size(); ++gpu) {
      if (gpu == except) continue;
      const State held = HeldNow(gpus[gpu]);
      for (int i = 0; i < static_cast<int>(table_.positions().size()); ++i) {
        if (table_.positions()[static_cast<size_t>(i)].profile != profile) continue;
        const absl::optional<State> next = table_.Add(held, i);
        if (!next.has_value()) continue;
        const int64_t acts = ActsFor(gpus[gpu], table_.Instances(*next), Bit(i));
        const std::pair<int64_t, int64_t> takes(acts, packing_.Worth(held) - packing_.Worth(*next));
        if (best.has_value() && least <= takes) continue;
        best.emplace(Choice{gpu, i}, acts);
        least = takes;
      }
    }
    return best;
  }

  // An instance with its holder; unused ones in its way go.
  void Put(std::map<int, Standing>& gpu, int position, const Standing& standing) const {
    gpu[position] = standing;
    const uint32_t held = table_.Instances(HeldNow(gpu));
    for (auto it = gpu.begin(); it != gpu.end();) {
      it = (held & Bit(it->first)) == 0 && !Stays(held, it->first) ? gpu.erase(it) : std::next(it);
    }
  }

  void Make(const Change& change) {
    for (const auto& [gang, fate] : change.fates) world_.fates[static_cast<size_t>(gang)] = fate;
    world_.gpus = WithoutEvicted(change);
    std::map<int, Standing>& here = world_.gpus[change.gpu];
    for (auto& [position, standing] : here) {
      const auto fate = change.fates.find(standing.holder);
      if (fate != change.fates.end() && fate->second == Fate::kMoved) standing = {};
    }
    size_t away = 0;
    for (size_t i = 0; i < change.items.size(); ++i) {
      const Standing standing{change.items[i].holder, change.items[i].origin};
      if (change.places[i].has_value()) {
        Put(here, *change.places[i], standing);
      } else {
        const Choice& place = change.away[away++];
        Put(world_.gpus[place.gpu], place.position, standing);
      }
    }
  }

  RepartitionPlan Written() const {
    RepartitionPlan plan;
    plan.granted.resize(request_.wanted.size());
    std::vector<std::map<size_t, Choice>> places(request_.gangs.size());
    std::set<size_t> touched;
    std::set<std::pair<size_t, int>> before;
    std::vector<Act> destroys;
    std::vector<Act> creates;
    for (const Instance& instance : request_.instances) {
      const auto [gpu, position] = instance.place;
      before.emplace(gpu, position);
      if (instance.holder >= 0 && FateOf(instance.holder) != Fate::kKept) touched.insert(gpu);
      if (world_.gpus[gpu].count(position) == 0) {
        destroys.push_back({Act::Kind::kDestroy, instance.place, kNobody, {}});
      }
    }
    for (size_t gpu = 0; gpu < world_.gpus.size(); ++gpu) {
      for (const auto& [position, standing] : world_.gpus[gpu]) {
        const Choice place{gpu, position};
        if (before.count({gpu, position}) == 0) {
          creates.push_back({Act::Kind::kCreate, place, kNobody, {}});
        }
        if (standing.holder <= kGranted) {
          plan.granted[static_cast<size_t>(kGranted - standing.holder)] = place;
          touched.insert(gpu);
        } else if (standing.holder >= 0) {
          places[static_cast<size_t>(standing.holder)][standing.origin] = place;
          if (FateOf(standing.holder) != Fate::kKept) touched.insert(gpu);
        }
      }
    }
    for (const Act& act : destroys) touched.insert(act.place.gpu);
    for (const Act& act : creates) touched.insert(act.place.gpu);
    for (const size_t gpu : touched) {
      plan.acts.push_back({Act::Kind::kCordon, {gpu, 0}, kNobody, {}});
    }
    for (size_t gang = 0; gang < world_.fates.size(); ++gang) {
      if (world_.fates[gang] == Fate::kKept) continue;
      plan.work_lost += CostOf(static_cast<int>(gang), world_.fates[gang]);
      plan.acts.push_back({Act::Kind::kStop, {}, static_cast<int>(gang), {}});
    }
    plan.cost =
        plan.work_lost + request_.act_cost * static_cast<int64_t>(destroys.size() + creates.size());
    plan.acts.insert(plan.acts.end(), destroys.begin(), destroys.end());
    plan.acts.insert(plan.acts.end(), creates.begin(), creates.end());
    for (size_t gang = 0; gang < world_.fates.size(); ++gang) {
      if (world_.fates[gang] != Fate::kMoved) continue;
      Act start{Act::Kind::kStart, {}, static_cast<int>(gang), {}};
      for (const auto& [origin, place] : places[gang]) start.places.push_back(place);
      plan.acts.push_back(std::move(start));
    }
    for (const size_t gpu : touched) {
      plan.acts.push_back({Act::Kind::kUncordon, {gpu, 0}, kNobody, {}});
    }
    return plan;
  }

  Fate FateOf(int gang) const { return world_.fates[static_cast<size_t>(gang)]; }

  const Packing& packing_;
  const StateTable& table_;
  const RepartitionRequest& request_;
  World world_;
};

absl::Status Check(const StateTable& table, const RepartitionRequest& request) {
  std::vector<std::vector<Position>> gpus(request.gpus);
  for (size_t i = 0; i < request.instances.size(); ++i) {
    const Instance& instance = request.instances[i];
    const std::string field = absl::StrCat("instances[", i, "]");
    if (instance.place.gpu >= request.gpus) {
      return WrongRequest(absl::StrCat(field, ".place.gpu: found ", instance.place.gpu,
                                       "; expected less than ", request.gpus));
    }
    if (instance.place.position < 0 ||
        static_cast<size_t>(instance.place.position) >= table.positions().size()) {
      return WrongRequest(absl::StrCat(field, ".place.position: found ", instance.place.position,
                                       "; expected less than ", table.positions().size()));
    }
    if (instance.holder < kNobody || instance.holder >= static_cast<int>(request.gangs.size())) {
      return WrongRequest(absl::StrCat(field, ".holder: found ", instance.holder,
                                       "; expected a gang below ", request.gangs.size(), ", or ",
                                       kNobody));
    }
    gpus[instance.place.gpu].push_back(
        table.positions()[static_cast<size_t>(instance.place.position)]);
  }
  for (size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    const absl::Status status = table.FromPositions(gpus[gpu]).status();
    if (!status.ok()) return status::Annotate(status, absl::StrCat("GPU ", gpu));
  }
  for (const HoldingGang& gang : request.gangs) {
    if (gang.move_cost.value_or(0) < 0 || gang.evict_cost.value_or(0) < 0) {
      return WrongRequest("gangs: found a cost below 0; expected none");
    }
  }
  if (request.act_cost < 0) return WrongRequest("act_cost: found less than 0; expected 0 or more");
  for (const int profile : request.wanted) {
    if (profile < 0 || static_cast<size_t>(profile) >= table.model().profiles.size()) {
      return WrongRequest(absl::StrCat("wanted: found profile ", profile, "; expected less than ",
                                       table.model().profiles.size()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<absl::optional<RepartitionPlan>> PlanRepartition(const Packing& packing,
                                                                const RepartitionRequest& request) {
  CAPSTAN_RETURN_IF_ERROR(Check(packing.table(), request));
  return Planner(packing, request).Plan();
}

}  // namespace capstan::mig
