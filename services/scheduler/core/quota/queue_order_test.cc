#include "services/scheduler/core/quota/queue_order.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "services/scheduler/core/quota/random_tree.h"

namespace capstan::scheduler {
namespace {

Resources Gpus(int64_t amount) {
  Resources resources;
  resources[0] = amount;
  return resources;
}

QueueSpec Queue(std::string id, std::string parent = "", int64_t weight = 1) {
  QueueSpec spec;
  spec.id = std::move(id);
  spec.parent = std::move(parent);
  spec.weight = weight;
  spec.quotas["gpu"];
  return spec;
}

// A tree with what waits and runs in it.
struct Fixture {
  explicit Fixture(const std::vector<QueueSpec>& specs)
      : tree(specs, {}), usage(tree), gangs(tree) {}

  void Submit(absl::string_view queue, const Resources& request, int32_t priority = 0,
              uint32_t kind = 0) {
    QueuedGang gang;
    gang.kind.priority = priority;
    gang.kind.request = requests.Acquire(request);
    gang.kind.id = kind;
    gang.submit_order = ++submitted;
    gangs.Insert(*tree.Find(queue), gang);
  }
  QueueOrder Order(int64_t permille = 0) const {
    return QueueOrder({usage, gangs, requests, capacity, histories, permille});
  }
  // Ids of the queues in the order in which their gangs come, all started.
  std::string Starts(int64_t permille = 0) const {
    QueueOrder order = Order(permille);
    std::string ids;
    while (order.has_next()) {
      absl::StrAppend(&ids, tree.node(order.next_leaf()).id, " ");
      order.Start();
    }
    return ids;
  }

  QueueTree tree;
  TreeUsage usage;
  GangQueues gangs;
  RequestClasses requests;
  Resources capacity = Gpus(64);
  std::vector<UsageHistory> histories;
  int64_t submitted = 0;
};

TEST(QueueOrderTest, TakesTheLowestWeightedShareWithTheNextGang) {
  Fixture fixture({Queue("a", "", 1), Queue("b", "", 2)});
  for (int i = 0; i < 3; ++i) fixture.Submit("a", Gpus(1));
  for (int i = 0; i < 5; ++i) fixture.Submit("b", Gpus(1));
  EXPECT_EQ(fixture.Starts(), "b a b b a b b a ") << "ties go by id";
  Fixture large({Queue("a"), Queue("b")});
  large.Submit("a", Gpus(32));
  for (int i = 0; i < 3; ++i) large.Submit("b", Gpus(8));
  EXPECT_EQ(large.Starts(), "b b b a ") << "the gang itself counts";
}

TEST(QueueOrderTest, WithinAQueueByPriorityThenSubmission) {
  Fixture fixture({Queue("a")});
  fixture.Submit("a", Gpus(1), 5);
  fixture.Submit("a", Gpus(2), 9);
  fixture.Submit("a", Gpus(3), 5);
  fixture.Submit("a", Gpus(4), 9);
  QueueOrder order = fixture.Order();
  std::vector<int64_t> sizes;
  for (; order.has_next(); order.Skip()) sizes.push_back(order.next_request()[0]);
  EXPECT_EQ(sizes, (std::vector<int64_t>{2, 4, 1, 3}));
  EXPECT_EQ(fixture.requests.Get(fixture.gangs.First(*fixture.tree.Find("a"))->kind.request),
            Gpus(2));
}

TEST(QueueOrderTest, AGuaranteeThatCoversTheGangGoesFirst) {
  QueueSpec guaranteed = Queue("z");
  guaranteed.quotas["gpu"].guarantee = Limit::Of(16);
  Fixture fixture({Queue("a"), guaranteed});
  for (int i = 0; i < 3; ++i) fixture.Submit("z", Gpus(8));
  for (int i = 0; i < 3; ++i) fixture.Submit("a", Gpus(1));
  EXPECT_EQ(fixture.Starts(), "z z a a a z ");
}

TEST(QueueOrderTest, HistoryPutsTheGreedyBehind) {
  Fixture fixture({Queue("a"), Queue("b")});
  fixture.Submit("a", Gpus(1));
  fixture.Submit("b", Gpus(1));
  fixture.histories.resize(fixture.tree.size());
  fixture.histories[*fixture.tree.Find("a")].average = Gpus(10);
  EXPECT_EQ(fixture.Starts(0), "a b ");
  EXPECT_EQ(fixture.Starts(500), "b a ");
}

TEST(QueueOrderTest, HeldQueuesAreLeftOut) {
  QueueSpec held = Queue("held");
  held.stops.hold = true;
  Fixture fixture({held, Queue("below", "held"), Queue("free")});
  fixture.Submit("below", Gpus(1));
  fixture.Submit("free", Gpus(1));
  EXPECT_EQ(fixture.Starts(), "free ");
}

TEST(QueueOrderTest, BlockedAndSkippedGangsDoNotHoldUpOthers) {
  Fixture fixture({Queue("a"), Queue("b")});
  fixture.Submit("a", Gpus(1));
  fixture.Submit("a", Gpus(1));
  fixture.Submit("b", Gpus(2));
  QueueOrder order = fixture.Order();
  EXPECT_EQ(order.next_leaf(), *fixture.tree.Find("a"));
  order.Skip();
  EXPECT_EQ(order.next_leaf(), *fixture.tree.Find("a")) << "a skipped gang uses nothing";
  order.Block(order.next_leaf());
  EXPECT_EQ(order.next_leaf(), *fixture.tree.Find("b"));
  order.Start();
  EXPECT_FALSE(order.has_next());
  EXPECT_EQ(order.usage().used(QueueTree::kRoot), Gpus(2));
  EXPECT_EQ(fixture.usage.used(QueueTree::kRoot), Gpus(0)) << "what was given is unchanged";
}

// The order by its definition: everything computed anew at each step.
class NaiveOrder {
 public:
  NaiveOrder(const Fixture& fixture, int64_t permille)
      : fixture_(fixture), usage_(fixture.usage), permille_(permille) {
    for (int leaf : Leaves(fixture.tree)) {
      if (!fixture.tree.node(leaf).stops.hold) waiting_[leaf] = fixture.gangs.InOrder(leaf);
    }
  }

  // -1 if nothing waits.
  int Next() const { return Head(QueueTree::kRoot); }
  const QueuedGang& gang(int leaf) const { return waiting_.at(leaf).front(); }
  void Pass(int leaf, bool start) {
    if (start) usage_.Add(leaf, fixture_.requests.Get(gang(leaf).kind.request));
    waiting_[leaf].erase(waiting_[leaf].begin());
  }
  void Block(int leaf) { waiting_[leaf].clear(); }

 private:
  int Head(int node) const {
    if (fixture_.tree.leaf(node)) {
      auto it = waiting_.find(node);
      return it == waiting_.end() || it->second.empty() ? -1 : node;
    }
    int best = -1;
    std::pair<bool, Share> best_key;
    for (int child : fixture_.tree.children(node)) {
      const int leaf = Head(child);
      if (leaf < 0) continue;
      const std::pair<bool, Share> key =
          KeyOf(child, fixture_.requests.Get(gang(leaf).kind.request));
      if (best < 0 || key < best_key) best = leaf, best_key = key;
    }
    return best;
  }

  std::pair<bool, Share> KeyOf(int node, const Resources& request) const {
    const QueueNode& queue = fixture_.tree.node(node);
    bool covered = true, any = false;
    Share share;
    for (int r = 0; r < fixture_.tree.resource_count(); ++r) {
      const int64_t use = usage_.used(node)[r] + request[r];
      if (request[r] > 0 && (queue.guarantee_set >> r & 1) != 0) {
        any = true;
        covered = covered && use <= queue.guarantee[r];
      }
      // What there is none of was never used.
      const bool counts = !fixture_.histories.empty() && fixture_.capacity[r] > 0;
      const int64_t average = counts ? fixture_.histories[node].average[r] : 0;
      share = std::max(
          share, Share::Of(use + average * permille_ / 1000, fixture_.capacity[r], queue.weight));
    }
    return {!(any && covered), share};
  }

  const Fixture& fixture_;
  TreeUsage usage_;
  int64_t permille_;
  std::map<int, std::vector<QueuedGang>> waiting_;
};

std::vector<QueueSpec> SpecsFor(Random& random) {
  std::vector<QueueSpec> specs = RandomQueues(
      {.queues = static_cast<int>(random.Between(1, 20)), .depth = 6, .max_guarantee = 4}, random);
  for (QueueSpec& spec : specs) spec.stops.hold = random.OneIn(12);
  return specs;
}

void SubmitRandomly(Fixture& fixture, Random& random) {
  fixture.capacity = RandomAmounts(2, 0, 50, random);
  const std::vector<int> leaves = Leaves(fixture.tree);
  for (int i = 0; i < 60; ++i) {
    fixture.Submit(fixture.tree.node(leaves[random.Below(leaves.size())]).id,
                   RandomAmounts(2, 0, 3, random), static_cast<int32_t>(random.Below(3)),
                   static_cast<uint32_t>(random.Below(2)));
  }
  for (int i = 0; i < 5; ++i) {
    fixture.usage.Add(leaves[random.Below(leaves.size())], RandomAmounts(2, 0, 9, random));
  }
  fixture.histories.resize(fixture.tree.size());
  for (UsageHistory& history : fixture.histories) history.average = RandomAmounts(2, 0, 9, random);
}

TEST(QueueOrderTest, AgreesWithTheDefinition) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    Fixture fixture(SpecsFor(random));
    SubmitRandomly(fixture, random);
    const int64_t permille = random.Between(0, 1000);
    QueueOrder order = fixture.Order(permille);
    NaiveOrder naive(fixture, permille);
    while (order.has_next()) {
      const int leaf = naive.Next();
      ASSERT_EQ(order.next_leaf(), leaf) << "seed " << seed;
      ASSERT_EQ(order.next_gang(), naive.gang(leaf)) << "seed " << seed;
      switch (random.Below(8)) {
        case 0:
          order.Block(leaf);
          naive.Block(leaf);
          break;
        case 1:
          order.Skip();
          naive.Pass(leaf, false);
          break;
        default:
          order.Start();
          naive.Pass(leaf, true);
      }
    }
    ASSERT_EQ(naive.Next(), -1) << "seed " << seed;
  }
}

// Neither the order in which queues are given nor that in which gangs come shows in the result.
TEST(QueueOrderTest, DoesNotDependOnTheOrderOfInsertion) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    std::vector<QueueSpec> specs = SpecsFor(random);
    Fixture first(specs);
    SubmitRandomly(first, random);
    for (size_t i = specs.size(); i-- > 1;) std::swap(specs[i], specs[random.Below(i + 1)]);
    Fixture second(specs);
    second.capacity = first.capacity;
    std::vector<std::pair<int, QueuedGang>> all;
    for (int leaf : Leaves(first.tree)) {
      for (const QueuedGang& gang : first.gangs.InOrder(leaf)) all.emplace_back(leaf, gang);
    }
    for (size_t i = all.size(); i-- > 1;) std::swap(all[i], all[random.Below(i + 1)]);
    for (auto& [leaf, gang] : all) {
      gang.kind.request = second.requests.Acquire(first.requests.Get(gang.kind.request));
      second.gangs.Insert(leaf, gang);
    }
    second.usage = TreeUsage(second.tree);
    for (int leaf : Leaves(first.tree)) second.usage.Add(leaf, first.usage.used(leaf));
    EXPECT_EQ(first.Starts(), second.Starts()) << "seed " << seed;
  }
}

// What becomes of gangs in a round, as far as the order has a say: some start, and of others it
// turns out that nobody of their kind does any more, or none until somebody starts.
class Outcomes {
 public:
  enum class Outcome { kStart, kSkip, kSkipKind, kSkipKindUntilStart };

  Outcomes(uint64_t seed, uint64_t starts_in_100) : seed_(seed), starts_in_100_(starts_in_100) {}

  // Of a gang whose turn it is. `asked`: it may decide something for its kind.
  bool IsClosed(int leaf, const GangKind& kind) const {
    const auto until = closed_.find({leaf, kind});
    return until != closed_.end() && until->second >= starts_;
  }
  Outcome Of(int leaf, const QueuedGang& gang) {
    Random random(seed_ * 1000 + static_cast<uint64_t>(gang.submit_order));
    if (random.Below(100) < starts_in_100_) {
      ++starts_;
      return Outcome::kStart;
    }
    switch (random.Below(4)) {
      case 0:
        return Outcome::kSkip;
      case 1:
        closed_[{leaf, gang.kind}] = starts_;
        return Outcome::kSkipKindUntilStart;
      default:
        closed_[{leaf, gang.kind}] = INT64_MAX;
        return Outcome::kSkipKind;
    }
  }

 private:
  const uint64_t seed_;
  const uint64_t starts_in_100_;
  int64_t starts_ = 0;
  std::map<std::pair<int, GangKind>, int64_t> closed_;
};

// The gangs that are passed over are those that an order which visits everybody finds closed, and
// the others come exactly as there.
TEST(QueueOrderTest, PassingOverKindsChangesNoOther) {
  size_t passed = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    Fixture fixture(SpecsFor(random));
    SubmitRandomly(fixture, random);
    const std::vector<int> leaves = Leaves(fixture.tree);
    for (int i = 0; i < 100; ++i) {
      fixture.Submit(fixture.tree.node(leaves[random.Below(leaves.size())]).id,
                     Gpus(random.Between(1, 3)), static_cast<int32_t>(random.Below(2)),
                     static_cast<uint32_t>(random.Below(2)));
    }
    const uint64_t starts_in_100 = random.Below(60);
    Outcomes outcomes(seed, starts_in_100), all_outcomes(seed, starts_in_100);
    QueueOrder order = fixture.Order();
    NaiveOrder all(fixture, 0);
    using Outcome = Outcomes::Outcome;
    for (int leaf = all.Next(); leaf >= 0; leaf = all.Next()) {
      const QueuedGang gang = all.gang(leaf);
      if (all_outcomes.IsClosed(leaf, gang.kind)) {
        all.Pass(leaf, false);
        ++passed;
        continue;
      }
      ASSERT_TRUE(order.has_next()) << "seed " << seed;
      ASSERT_EQ(order.next_leaf(), leaf) << "seed " << seed;
      ASSERT_EQ(order.next_gang(), gang) << "seed " << seed;
      const Outcome outcome = outcomes.Of(leaf, gang);
      ASSERT_EQ(all_outcomes.Of(leaf, gang), outcome);
      all.Pass(leaf, outcome == Outcome::kStart);
      switch (outcome) {
        case Outcome::kStart:
          order.Start();
          break;
        case Outcome::kSkip:
          order.Skip();
          break;
        case Outcome::kSkipKind:
          order.SkipKind();
          break;
        case Outcome::kSkipKindUntilStart:
          order.SkipKindUntilStart();
          break;
      }
    }
    ASSERT_FALSE(order.has_next()) << "seed " << seed;
  }
  EXPECT_GT(passed, 3000u) << "else it shows nothing";
}

TEST(QueueOrderTest, OnlyTheFreshIfSoAsked) {
  Fixture fixture({Queue("a")});
  fixture.Submit("a", Gpus(1));
  QueuedGang fresh;
  fresh.kind.request = fixture.requests.Acquire(Gpus(2));
  fresh.kind.fresh = true;
  fresh.submit_order = 7;
  fixture.gangs.Insert(*fixture.tree.Find("a"), fresh);
  QueueOrder order({fixture.usage, fixture.gangs, fixture.requests, fixture.capacity,
                    fixture.histories, 0, /*fresh_only=*/true});
  ASSERT_TRUE(order.has_next());
  EXPECT_EQ(order.next_gang(), fresh);
  order.Skip();
  EXPECT_FALSE(order.has_next());
}

TEST(GangQueuesTest, KeepsNoKindThatNobodyIsOf) {
  Fixture fixture({Queue("a"), Queue("b")});
  fixture.Submit("a", Gpus(1));
  fixture.Submit("a", Gpus(1));
  const int leaf = *fixture.tree.Find("a");
  ASSERT_EQ(fixture.gangs.kinds(leaf).size(), 1u);
  for (const QueuedGang& gang : fixture.gangs.InOrder(leaf)) {
    EXPECT_TRUE(fixture.gangs.Erase(leaf, gang));
    EXPECT_FALSE(fixture.gangs.Erase(leaf, gang));
  }
  EXPECT_TRUE(fixture.gangs.kinds(leaf).empty());
  EXPECT_EQ(fixture.gangs.size(leaf), 0u);
  EXPECT_EQ(fixture.gangs.size(), 0u);
  EXPECT_FALSE(fixture.gangs.First(leaf).has_value());
}

TEST(RequestClassesTest, KeepsEachRequestOnceAndReusesIds) {
  RequestClasses classes;
  const uint32_t a = classes.Acquire(Gpus(1)), b = classes.Acquire(Gpus(2));
  EXPECT_EQ(classes.Acquire(Gpus(1)), a);
  EXPECT_EQ(classes.size(), 2u);
  classes.Release(a);
  EXPECT_EQ(classes.Get(a), Gpus(1)) << "still held";
  classes.Release(a);
  EXPECT_EQ(classes.Acquire(Gpus(3)), a);
  EXPECT_EQ(classes.Get(b), Gpus(2));
}

}  // namespace
}  // namespace capstan::scheduler
