#include "services/scheduler/core/freeing.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <utility>

#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/tight_placer.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Topology;

// Whoever asks has the strand wait.
constexpr size_t kMostDomains = 64;
constexpr int64_t kMostTasks = 2048;
// Domains of which it is tried whether the placer finds the place too.
constexpr size_t kMostTried = 4;
// Of a gang with several groups: tries to do with less, and Nodes that each of them looks at.
constexpr int kMostReductions = 64;
constexpr size_t kMostReducedNodes = 256;

// Calls `look` with both amounts of each resource that `each` asks for.
template <typename Look>
void ForEachAsked(const Amounts& each, const Amounts& other, Look look) {
  if (each.cpu_millis > 0) look(each.cpu_millis, other.cpu_millis);
  if (each.memory_bytes > 0) look(each.memory_bytes, other.memory_bytes);
  for (const auto& [name, count] : each.accelerators) {
    const auto found = other.accelerators.find(name);
    look(count, found == other.accelerators.end() ? 0 : found->second);
  }
}

// Of `of`, in thousandths, rounded up: nothing only if nothing is lacking.
int64_t Thousandths(int64_t lacking, int64_t of) {
  if (lacking <= 0) return 0;
  return lacking / of * 1000 + (lacking % of * 1000 + of - 1) / of;
}

// A Node that Tasks are put on, of what is free and beyond that of what would come free.
class Slot {
 public:
  // `whole`: what would be free if nothing ran there.
  Slot(const NodeCapacity* node, const Amounts* whole) : node_(node), whole_(whole) {}

  const NodeCapacity& node() const { return *node_; }
  const Amounts& taken() const { return taken_; }
  // How many more Tasks fit into what is free, and into what would be; at most `limit`.
  int64_t FitsFree(const Amounts& each, int64_t limit) const {
    return is_untouched_ ? node_->free.Fits(each, limit) : Left(node_->free).Fits(each, limit);
  }
  int64_t FitsWhole(const Amounts& each, int64_t limit) const {
    return is_untouched_ ? whole_->Fits(each, limit) : Left(*whole_).Fits(each, limit);
  }
  // What a Task would lack.
  int64_t LackOf(const Amounts& each) const {
    return is_untouched_ ? scheduler::LackOf(each, node_->free)
                         : scheduler::LackOf(each, Left(node_->free));
  }
  void Take(const Amounts& each, int64_t count) {
    taken_.Add(each, count);
    is_untouched_ = false;
  }

 private:
  Amounts Left(Amounts of) const {
    of.Subtract(taken_);
    return of;
  }

  const NodeCapacity* node_;
  const Amounts* whole_;
  Amounts taken_;
  // As most Nodes are to the end, and there are many of them.
  bool is_untouched_ = true;
};
using Slots = std::vector<Slot*>;

std::map<std::string, Slots> ByDomain(const Slots& slots, Topology::Level level) {
  std::map<std::string, Slots> domains;
  for (Slot* slot : slots) {
    std::string domain = DomainOf(slot->node(), level);
    if (!domain.empty()) domains[std::move(domain)].push_back(slot);
  }
  return domains;
}

// Each puts the Tasks where least has to come free, and returns what that costs; absl::nullopt if
// they do not fit, and then some may be put all the same.
absl::optional<int64_t> PutTasks(const Amounts& each, const Slots& slots, int64_t count) {
  for (Slot* slot : slots) {
    if (count == 0) break;
    int64_t fit = slot->FitsFree(each, count);
    if (fit > 0) fit = slot->FitsWhole(each, fit);
    if (fit == 0) continue;
    slot->Take(each, fit);
    count -= fit;
  }
  if (count == 0) return 0;
  using Entry = std::pair<int64_t, size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> next;
  const auto offer = [&](size_t at) {
    if (slots[at]->FitsWhole(each, 1) > 0) next.emplace(slots[at]->LackOf(each), at);
  };
  for (size_t at = 0; at < slots.size(); ++at) offer(at);
  int64_t cost = 0;
  for (; count > 0; --count) {
    if (next.empty()) return absl::nullopt;
    const auto [more, at] = next.top();
    next.pop();
    cost += more;
    slots[at]->Take(each, 1);
    offer(at);
  }
  return cost;
}

absl::optional<int64_t> Put(const GangRequest::Group& group, size_t slice, const Slots& slots,
                            int64_t count);

// What Put would return.
absl::optional<int64_t> Try(const GangRequest::Group& group, size_t slice, const Slots& slots,
                            int64_t count) {
  int64_t room = 0;
  for (const Slot* slot : slots) {
    room += slot->FitsWhole(group.each, count - room);
    if (room >= count) break;
  }
  if (room < count) return absl::nullopt;
  std::vector<Slot> before;
  before.reserve(slots.size());
  for (const Slot* slot : slots) before.push_back(*slot);
  const absl::optional<int64_t> cost = Put(group, slice, slots, count);
  for (size_t i = 0; i < slots.size(); ++i) *slots[i] = std::move(before[i]);
  return cost;
}

absl::optional<int64_t> Put(const GangRequest::Group& group, size_t slice, const Slots& slots,
                            int64_t count) {
  if (slice == group.slices.size()) return PutTasks(group.each, slots, count);
  const int64_t size = group.slices[slice].size;
  const std::map<std::string, Slots> domains = ByDomain(slots, group.slices[slice].level);
  using Entry = std::pair<int64_t, const Slots*>;
  std::vector<Entry> next;
  for (const auto& [name, in] : domains) {
    const absl::optional<int64_t> cost = Try(group, slice + 1, in, size);
    if (cost.has_value()) next.emplace_back(*cost, &in);
  }
  int64_t sum = 0;
  for (; count > 0; count -= size) {
    const auto least = std::min_element(
        next.begin(), next.end(), [](const Entry& a, const Entry& b) { return a.first < b.first; });
    if (least == next.end()) return absl::nullopt;
    const absl::optional<int64_t> cost = Put(group, slice + 1, *least->second, size);
    if (!cost.has_value()) return absl::nullopt;
    sum += *cost;
    const absl::optional<int64_t> again = Try(group, slice + 1, *least->second, size);
    if (again.has_value()) {
      least->first = *again;
    } else {
      next.erase(least);
    }
  }
  return sum;
}

// One domain that all of the gang must be in: groups are put down in order, each section and group
// into the domain where least has to come free.
class Filling {
 public:
  Filling(const GangRequest& gang, const std::vector<const NodeCapacity*>& nodes,
          absl::FunctionRef<const Amounts&(const NodeCapacity& node)> whole)
      : gang_(gang), sections_(gang.sections.size()) {
    slots_.reserve(nodes.size());
    for (const NodeCapacity* node : nodes) slots_.emplace_back(node, &whole(*node));
    for (Slot& slot : slots_) all_.push_back(&slot);
    for (size_t g = 0; g < gang.groups.size(); ++g) {
      for (int s = gang.groups[g].section; s >= 0; s = gang.sections[s].parent) {
        below_[s].push_back(static_cast<int>(g));
      }
    }
  }

  absl::optional<int64_t> Run() {
    int64_t sum = 0;
    for (size_t g = 0; g < gang_.groups.size(); ++g) {
      const GangRequest::Group& group = gang_.groups[g];
      const Slots in =
          Best(SectionSlots(group.section), group.topology.required(), {static_cast<int>(g)});
      const absl::optional<int64_t> cost =
          Put(group, 0, Admitting(static_cast<int>(g), in), group.replicas);
      if (!cost.has_value()) return absl::nullopt;
      sum += *cost;
    }
    return sum;
  }

  // Nodes that Tasks were put on, and what has to come free there.
  std::vector<Freeing::Part> Parts() const {
    std::vector<Freeing::Part> parts;
    for (const Slot& slot : slots_) {
      if (slot.taken() == Amounts()) continue;
      parts.push_back({&slot.node(), LackingOf(slot.taken(), slot.node().free)});
    }
    return parts;
  }

  static Amounts LackingOf(const Amounts& taken, const Amounts& free) {
    Amounts lacking;
    const auto of = [](int64_t asked, int64_t have) {
      return asked > 0 ? std::max<int64_t>(asked - have, 0) : 0;
    };
    lacking.cpu_millis = of(taken.cpu_millis, free.cpu_millis);
    lacking.memory_bytes = of(taken.memory_bytes, free.memory_bytes);
    for (const auto& [name, asked] : taken.accelerators) {
      const auto have = free.accelerators.find(name);
      const int64_t lack = of(asked, have == free.accelerators.end() ? 0 : have->second);
      if (lack > 0) lacking.accelerators[name] = lack;
    }
    return lacking;
  }

 private:
  // Those that may take the group's Tasks.
  Slots Admitting(int group, Slots slots) const {
    if (gang_.groups[group].node_requirements.empty()) return slots;
    std::erase_if(slots, [&](const Slot* slot) { return !Admits(slot->node(), gang_, group); });
    return slots;
  }

  // Of the domains of the level, the one where least has to come free for all of the groups, each
  // by itself; none if they fit into none.
  Slots Best(const Slots& slots, Topology::Level level, const std::vector<int>& groups) const {
    if (level == Topology::LEVEL_UNSPECIFIED) return slots;
    Slots best;
    int64_t least = -1;
    for (auto& [name, in] : ByDomain(slots, level)) {
      int64_t sum = 0;
      for (int g : groups) {
        const GangRequest::Group& group = gang_.groups[g];
        const absl::optional<int64_t> cost = Try(group, 0, Admitting(g, in), group.replicas);
        sum = cost.has_value() && sum >= 0 ? sum + *cost : -1;
      }
      if (sum < 0 || (least >= 0 && sum >= least)) continue;
      least = sum;
      best = std::move(in);
    }
    return best;
  }

  const Slots& SectionSlots(int section) {
    if (section < 0) return all_;
    absl::optional<Slots>& slots = sections_[section];
    if (!slots.has_value()) {
      const GangRequest::Section& s = gang_.sections[section];
      slots = Best(SectionSlots(s.parent), s.topology.required(), below_[section]);
    }
    return *slots;
  }

  const GangRequest& gang_;
  std::vector<Slot> slots_;
  Slots all_;
  // By section: the groups below it, and its Nodes once they are chosen.
  std::map<int, std::vector<int>> below_;
  std::vector<absl::optional<Slots>> sections_;
};

// By the placer, on these Nodes, with what comes free.
absl::optional<GangPlacement> PlaceWith(const GangRequest& gang,
                                        const std::vector<const NodeCapacity*>& nodes,
                                        const std::vector<Freeing::Part>& parts) {
  std::vector<NodeCapacity> capacities;
  auto part = parts.begin();
  for (const NodeCapacity* node : nodes) {
    capacities.push_back(*node);
    while (part != parts.end() && part->node->id < node->id) ++part;
    if (part == parts.end() || part->node->id != node->id) continue;
    capacities.back().free.Add(part->amounts);
  }
  return TightPlacer().Begin(capacities)->Place(gang);
}

// The parts of them that are of something.
std::vector<Freeing::Part> OfSomething(std::vector<Freeing::Part> parts) {
  std::erase_if(parts, [](const Freeing::Part& part) { return part.amounts == Amounts(); });
  return parts;
}

// What has to come free for the placement.
std::vector<Freeing::Part> PartsOf(const GangRequest& gang,
                                   const std::vector<const NodeCapacity*>& nodes,
                                   const GangPlacement& placement) {
  std::map<int, Amounts> taken;
  size_t rank = 0;
  for (size_t g = 0; g < placement.sizes.size(); ++g) {
    for (int i = 0; i < placement.sizes[g]; ++i, ++rank) {
      taken[placement.nodes[rank]].Add(gang.groups[g].each);
    }
  }
  std::vector<Freeing::Part> parts;
  for (const auto& [at, amounts] : taken) {
    parts.push_back({nodes[at], Filling::LackingOf(amounts, nodes[at]->free)});
  }
  return OfSomething(std::move(parts));
}

// Each way to have one unit less of one resource come free on one Node.
std::vector<std::vector<Freeing::Part>> WithOneLess(const std::vector<Freeing::Part>& parts) {
  std::vector<std::vector<Freeing::Part>> all;
  const auto add = [&](size_t at, const Amounts& less) {
    std::vector<Freeing::Part>& one = all.emplace_back(parts);
    one[at].amounts.Subtract(less);
  };
  for (size_t at = 0; at < parts.size(); ++at) {
    if (parts[at].amounts.cpu_millis > 0) add(at, {1, 0, {}});
    if (parts[at].amounts.memory_bytes > 0) add(at, {0, 1, {}});
    for (const auto& [name, count] : parts[at].amounts.accelerators) {
      add(at, {0, 0, {{name, 1}}});
    }
  }
  return all;
}

// As little of it as the placer can do with.
std::vector<Freeing::Part> Reduced(const GangRequest& gang,
                                   const std::vector<const NodeCapacity*>& nodes,
                                   std::vector<Freeing::Part> parts) {
  int tries = 0;
  for (bool reduced = true; reduced;) {
    reduced = false;
    for (const std::vector<Freeing::Part>& less : WithOneLess(parts)) {
      if (++tries > kMostReductions) return parts;
      const absl::optional<GangPlacement> placement = PlaceWith(gang, nodes, less);
      if (!placement.has_value()) continue;
      parts = PartsOf(gang, nodes, *placement);
      reduced = !parts.empty();
      break;
    }
  }
  return parts;
}

// All Nodes of the domains, in their order; none if they are too many.
std::vector<const NodeCapacity*> FewNodes(
    const std::map<std::string, std::vector<const NodeCapacity*>>& domains) {
  std::vector<const NodeCapacity*> all;
  for (const auto& [name, nodes] : domains) {
    if (all.size() + nodes.size() > kMostReducedNodes) return {};
    all.insert(all.end(), nodes.begin(), nodes.end());
  }
  std::sort(all.begin(), all.end(),
            [](const NodeCapacity* a, const NodeCapacity* b) { return a->id < b->id; });
  return all;
}

struct Scored {
  int64_t score = 0;
  const std::vector<const NodeCapacity*>* nodes = nullptr;
};

// The domains to look at: those that might hold the gang if they were empty, and of these those
// that lack least in sum.
std::vector<Scored> Promising(
    const GangRequest& gang, const std::map<std::string, std::vector<const NodeCapacity*>>& domains,
    absl::FunctionRef<const Amounts&(const NodeCapacity& node)> whole) {
  Amounts all;
  for (const GangRequest::Group& group : gang.groups) all.Add(group.each, group.replicas);
  std::vector<Scored> promising;
  for (const auto& [name, nodes] : domains) {
    if (domains.size() <= kMostDomains) {
      promising.push_back({0, &nodes});
      continue;
    }
    Amounts free;
    Amounts most;
    for (const NodeCapacity* node : nodes) {
      free.Add(node->free);
      most.Add(whole(*node));
    }
    if (most.Fits(all, 1) > 0) promising.push_back({LackOf(all, free), &nodes});
  }
  std::stable_sort(promising.begin(), promising.end(),
                   [](const Scored& a, const Scored& b) { return a.score < b.score; });
  if (promising.size() > kMostDomains) promising.resize(kMostDomains);
  return promising;
}

}  // namespace

int64_t LackOf(const Amounts& each, const Amounts& free) {
  int64_t lack = 0;
  ForEachAsked(each, free, [&lack](int64_t asked, int64_t have) {
    lack += Thousandths(asked - std::max<int64_t>(have, 0), asked);
  });
  return lack;
}

FreeingSearch FindFreeing(const GangRequest& gang,
                          const std::map<std::string, std::vector<const NodeCapacity*>>& domains,
                          absl::FunctionRef<const Amounts&(const NodeCapacity& node)> whole) {
  FreeingSearch search;
  GangRequest least = gang;
  int64_t tasks = 0;
  for (GangRequest::Group& group : least.groups) {
    if (group.each.mig.ask().has_value()) return search;
    group.more = 0;
    tasks += group.replicas;
  }
  if (tasks > kMostTasks) return search;
  struct Found {
    int64_t cost = 0;
    const std::vector<const NodeCapacity*>* nodes = nullptr;
    std::vector<Freeing::Part> parts;
  };
  std::vector<Found> found;
  for (const Scored& domain : Promising(least, domains, whole)) {
    Filling filling(least, *domain.nodes, whole);
    const absl::optional<int64_t> cost = filling.Run();
    if (cost.has_value()) found.push_back({*cost, domain.nodes, filling.Parts()});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.cost < b.cost; });
  for (const Found& one : found) search.nearest.push_back(one.nodes);
  if (found.size() > kMostTried) found.resize(kMostTried);
  // Several groups are placed by rules of thumb, which other Nodes may lead elsewhere.
  const bool by_trial = least.groups.size() > 1;
  const std::vector<const NodeCapacity*> all =
      by_trial ? FewNodes(domains) : std::vector<const NodeCapacity*>();
  for (Found& one : found) {
    std::vector<const NodeCapacity*> nodes = all;
    if (nodes.empty() && by_trial && one.nodes->size() <= kMostReducedNodes) nodes = *one.nodes;
    if (nodes.empty()) {
      for (const Freeing::Part& part : one.parts) nodes.push_back(part.node);
    }
    std::vector<Freeing::Part> parts = OfSomething(std::move(one.parts));
    if (parts.empty() || !PlaceWith(least, nodes, parts).has_value()) continue;
    // Those of one group are least already: what is free is used up before anything comes free.
    if (by_trial) parts = Reduced(least, nodes, std::move(parts));
    search.least = Freeing{std::move(parts), one.cost};
    break;
  }
  return search;
}

}  // namespace capstan::scheduler
