// Compares ComputeFairShares with its definition in exact fractions of any size: every step
// computes everything anew and advances all queues at once, instead of clocks that are brought up
// to date.
#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <vector>

#include "gtest/gtest.h"
#include "services/scheduler/core/quota/fair_shares.h"
#include "services/scheduler/core/quota/random_tree.h"

namespace capstan::scheduler {
namespace {

using Fraction = boost::multiprecision::cpp_rational;

class ExactFilling {
 public:
  ExactFilling(const QueueTree& tree, const Resources& capacity,
               const std::vector<Resources>& demand)
      : tree_(tree), capacity_(capacity), count_(tree.resource_count()), nodes_(tree.size()) {
    for (int leaf : Leaves(tree)) {
      Node& node = nodes_[leaf];
      for (int r = 0; r < count_; ++r) {
        if (demand[leaf][r] > 0 && capacity[r] == 0) node.impossible = true;
        if (capacity[r] == 0) continue;
        node.direction[r] = Fraction(demand[leaf][r], capacity[r]);
        node.full = std::max(node.full, node.direction[r]);
      }
      if (node.impossible) node.full = 0;
      for (int r = 0; r < count_ && node.full > 0; ++r) node.direction[r] /= node.full;
    }
  }

  void Fill() {
    for (int depth = tree_.depth(); depth >= 0; --depth) FillTo(depth);
  }

  const Fraction& level(int leaf) const { return nodes_[leaf].clock; }
  Fraction amount(int leaf, int r) const {
    return nodes_[leaf].clock * nodes_[leaf].direction[r] * capacity_[r];
  }

 private:
  struct Node {
    bool impossible = false;
    bool active = false;
    bool growing = false;
    Fraction clock, full, rate;
    // What one unit of the clock takes; of claims, before and after the node's own reserve.
    Fraction direction[kMaxResources], growth[kMaxResources], passing[kMaxResources];
    Fraction claimed[kMaxResources];
  };

  Fraction ShareOf(int64_t amount, int r) const {
    return capacity_[r] == 0 ? Fraction(0) : Fraction(amount, capacity_[r]);
  }
  Fraction Key(int i) const { return nodes_[i].clock / tree_.node(i).weight; }

  // True if the bound of r at the node exists, and it.
  bool Bound(int i, int r, int depth, Fraction& bound) const {
    const QueueNode& node = tree_.node(i);
    bool bounded = true;
    if (i == QueueTree::kRoot) {
      bound = 1;
    } else if (node.cap[r] != kNoBound) {
      bound = ShareOf(node.cap[r], r);
    } else {
      bounded = false;
    }
    if (depth > 0 && node.depth == depth && (node.guarantee_set >> r & 1) != 0) {
      const Fraction guarantee = ShareOf(node.guarantee[r], r);
      bound = bounded ? std::min(bound, guarantee) : guarantee;
      bounded = true;
    }
    return bounded && capacity_[r] > 0;
  }

  bool Wanted(int leaf, int depth) const {
    if (nodes_[leaf].clock >= nodes_[leaf].full) return false;
    for (int i = leaf; i > 0; i = tree_.node(i).parent) {
      if (tree_.node(i).depth != depth) continue;
      for (int r = 0; r < count_; ++r) {
        if ((tree_.node(i).guarantee_set >> r & 1) != 0 && nodes_[leaf].direction[r] > 0) {
          return true;
        }
      }
    }
    return depth == 0;
  }

  void FillTo(int depth) {
    for (int leaf : Leaves(tree_)) nodes_[leaf].active = Wanted(leaf, depth);
    do {
      SumClaims();
      StopAtBounds(depth);
      SetGrowth();
    } while (Advance(depth));
  }

  void SumClaims() {
    for (int i = tree_.size() - 1; i >= 0; --i) {
      for (int r = 0; r < count_; ++r) {
        Fraction sum =
            tree_.leaf(i) ? Fraction(nodes_[i].clock * nodes_[i].direction[r]) : Fraction(0);
        for (int c : tree_.children(i)) {
          sum += std::max(nodes_[c].claimed[r], ShareOf(tree_.node(c).reserve[r], r));
        }
        nodes_[i].claimed[r] = sum;
      }
    }
  }

  Fraction FleetUse(int r) const {
    Fraction used;
    for (int leaf : Leaves(tree_)) used += nodes_[leaf].clock * nodes_[leaf].direction[r];
    return used;
  }

  // Whether growth of the leaf in r raises the claim of its ancestor.
  bool Raises(int leaf, int ancestor, int r) const {
    if (nodes_[leaf].direction[r] == 0) return false;
    for (int i = leaf; i != ancestor; i = tree_.node(i).parent) {
      if (nodes_[i].claimed[r] < ShareOf(tree_.node(i).reserve[r], r)) return false;
    }
    return true;
  }

  void StopAtBounds(int depth) {
    for (int leaf : Leaves(tree_)) {
      if (nodes_[leaf].clock >= nodes_[leaf].full) nodes_[leaf].active = false;
      for (int i = leaf; i >= 0; i = tree_.node(i).parent) {
        for (int r = 0; r < count_; ++r) {
          Fraction bound;
          if (Bound(i, r, depth, bound) && nodes_[i].claimed[r] >= bound && Raises(leaf, i, r)) {
            nodes_[leaf].active = false;
          }
          if (i == 0 && FleetUse(r) >= 1 && nodes_[leaf].direction[r] > 0) {
            nodes_[leaf].active = false;
          }
        }
      }
    }
  }

  void SetGrowth() {
    for (int i = tree_.size() - 1; i >= 0; --i) {
      Node& node = nodes_[i];
      if (!tree_.leaf(i)) {
        node.active = false;
        SumDirections(i);
      } else {
        for (int r = 0; r < count_; ++r) node.growth[r] = node.direction[r];
      }
      for (int r = 0; r < count_; ++r) {
        const bool reserved = node.claimed[r] < ShareOf(tree_.node(i).reserve[r], r);
        node.passing[r] = reserved ? Fraction(0) : node.growth[r];
      }
    }
    nodes_[0].rate = nodes_[0].active ? 1 : 0;
    for (int i = 0; i < tree_.size(); ++i) SetRates(i);
  }

  void SumDirections(int i) {
    Node& node = nodes_[i];
    absl::optional<Fraction> lowest;
    for (int c : tree_.children(i)) {
      if (nodes_[c].active && (!lowest.has_value() || Key(c) < *lowest)) lowest = Key(c);
    }
    for (int r = 0; r < count_; ++r) node.direction[r] = node.growth[r] = 0;
    for (int c : tree_.children(i)) {
      nodes_[c].growing = nodes_[c].active && Key(c) == *lowest;
      if (!nodes_[c].growing) continue;
      node.active = true;
      for (int r = 0; r < count_; ++r) {
        node.direction[r] += tree_.node(c).weight * nodes_[c].direction[r];
        node.growth[r] += tree_.node(c).weight * nodes_[c].passing[r];
      }
    }
    const Fraction pace = *std::max_element(node.direction, node.direction + count_);
    for (int r = 0; r < count_ && node.active; ++r)
      node.direction[r] /= pace, node.growth[r] /= pace;
    node.full = pace;
  }

  // `full` of an inner node holds its pace.
  void SetRates(int i) {
    for (int c : tree_.children(i)) {
      nodes_[c].rate = !nodes_[c].growing || nodes_[i].rate == 0
                           ? Fraction(0)
                           : Fraction(nodes_[i].rate / nodes_[i].full * tree_.node(c).weight);
    }
  }

  // To the next moment at which something changes; false if nothing grows.
  bool Advance(int depth) {
    if (!nodes_[0].active) return false;
    absl::optional<Fraction> step;
    const auto offer = [&step](const Fraction& left, const Fraction& rate) {
      if (rate == 0 || left <= 0) return;
      const Fraction time = left / rate;
      if (!step.has_value() || time < *step) step = time;
    };
    for (int i = 0; i < tree_.size(); ++i) {
      const Node& node = nodes_[i];
      if (node.rate == 0) continue;
      if (tree_.leaf(i)) offer(node.full - node.clock, node.rate);
      for (int c : tree_.children(i)) {
        if (!nodes_[c].active || nodes_[c].growing) continue;
        for (int d : tree_.children(i)) {
          if (nodes_[d].growing) offer(Key(c) - Key(d), nodes_[d].rate / tree_.node(d).weight);
        }
      }
      for (int r = 0; r < count_; ++r) {
        Fraction bound;
        if (Bound(i, r, depth, bound)) offer(bound - node.claimed[r], node.growth[r] * node.rate);
        offer(ShareOf(tree_.node(i).reserve[r], r) - node.claimed[r], node.growth[r] * node.rate);
      }
    }
    for (int r = 0; r < count_; ++r) offer(1 - FleetUse(r), nodes_[0].direction[r]);
    for (Node& node : nodes_) node.clock += *step * node.rate;
    return true;
  }

  const QueueTree& tree_;
  const Resources capacity_;
  const int count_;
  std::vector<Node> nodes_;
};

void ExpectAgreement(uint64_t seed, const RandomTreeOptions& options, int64_t max_demand) {
  Random random(seed);
  const QueueTree tree(RandomQueues(options, random), RandomResourceNames(options.resources));
  Resources capacity = RandomAmounts(options.resources, 10, 100, random);
  if (random.OneIn(10)) capacity[0] = 0;
  std::vector<Resources> demand(tree.size());
  for (int leaf : Leaves(tree)) {
    demand[leaf] = RandomAmounts(options.resources, 0, max_demand, random);
    for (int r = 0; r < options.resources; ++r) {
      if (random.OneIn(4)) demand[leaf][r] = 0;
    }
  }
  const FairShares shares = ComputeFairShares(tree, capacity, demand);
  ExactFilling exact(tree, capacity, demand);
  exact.Fill();
  const double tolerance = 1.0 / (uint64_t{1} << 36);
  for (int leaf : Leaves(tree)) {
    const double level = exact.level(leaf).convert_to<double>();
    ASSERT_NEAR(static_cast<double>(shares.levels[leaf]) / (uint64_t{1} << kShareBits), level,
                tolerance)
        << "seed " << seed << ", " << tree.node(leaf).id;
    for (int r = 0; r < options.resources; ++r) {
      const double amount = exact.amount(leaf, r).convert_to<double>();
      ASSERT_LE(static_cast<double>(shares.amounts[leaf][r]), amount + 1e-6) << "seed " << seed;
      ASSERT_GE(static_cast<double>(shares.amounts[leaf][r]), amount - 1 + 1e-6) << "seed " << seed;
    }
  }
}

TEST(FairSharesOracleTest, AgreesWithoutLimits) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    ExpectAgreement(seed, {.queues = 6, .depth = 3, .resources = 2}, 120);
  }
}

TEST(FairSharesOracleTest, AgreesWithGuarantees) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    ExpectAgreement(seed, {.queues = 6, .depth = 3, .resources = 2, .max_guarantee = 20}, 60);
  }
}

TEST(FairSharesOracleTest, AgreesWithGuaranteesAndLimits) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    ExpectAgreement(
        seed, {.queues = 7, .depth = 4, .resources = 3, .max_guarantee = 20, .limits = true}, 60);
  }
}

}  // namespace
}  // namespace capstan::scheduler
