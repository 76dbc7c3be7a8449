// What Queues get over many rounds of the core, against what quota/fair_shares.h entitles them to;
// that each that is entitled to something goes on starting Jobs; and that they do not take turns in
// ending each other's.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/queue_world.h"
#include "services/scheduler/core/quota/limit.h"
#include "services/scheduler/core/quota/queue_spec.h"
#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/quota/random_tree.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::JobSpec;

// Of one resource, in halves of a core; 32 cores are there.
std::vector<QueueSpec> RandomTree(uint64_t seed) {
  Random random(seed);
  RandomTreeOptions options;
  options.queues = static_cast<int>(random.Between(3, 9));
  options.depth = 3;
  options.resources = 1;
  if (seed % 3 != 0) options.max_guarantee = 24;
  options.limits = seed % 3 == 2;
  return RandomQueues(options, random);
}

QueueWorld::Options OptionsOf(uint64_t seed) {
  QueueWorld::Options options;
  options.seed = seed;
  options.queues = RandomTree(seed);
  if (seed % 2 == 0) options.sizes = {500, 1000};
  return options;
}

// Leaves that Jobs go to: all but the Queue that is there from the beginning.
std::set<int> LoadedLeaves(const QueueTree& tree) {
  std::set<int> loaded;
  for (int leaf : Leaves(tree)) {
    if (tree.node(leaf).id != "default") loaded.insert(leaf);
  }
  return loaded;
}

// The one of lowest share with its next Job goes first, by which nobody is short of its part by as
// much as a Job (whole Jobs divided so are D'Hondt's method); a level below divides what is left of
// that. Where Jobs differ in size, what is left on a Node may be too little for the next one.
int64_t Bound(const QueueWorld& world, int node) {
  const int mixed = world.smallest() < world.largest() ? 1 : 0;
  return world.largest() * (world.tree().node(node).depth + mixed);
}

TEST(SchedulerCoreSharesTest, QueuesHoldTheirFairShares) {
  int judged = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    QueueWorld world(OptionsOf(seed));
    const QueueTree& tree = world.tree();
    const std::set<int> loaded = LoadedLeaves(tree);
    // One of them has all at first.
    for (int i = 0; i < 6; ++i) world.Tick({*loaded.begin()});
    // All that ran then has ended, and once more.
    for (int i = 0; i < 26; ++i) world.Tick(loaded);
    for (int i = 0; i < 8; ++i) {
      world.Tick(loaded);
      const std::vector<int64_t> used = world.Used();
      const std::vector<int64_t> fair = world.FairShares();
      for (int node = 1; node < tree.size(); ++node) {
        EXPECT_GE(used[node] + Bound(world, node), fair[node])
            << "queue " << tree.node(node).id << " of depth " << tree.node(node).depth << "\nused "
            << absl::StrJoin(used, " ") << "\nfair " << absl::StrJoin(fair, " ");
        ++judged;
      }
      // Nothing that somebody is entitled to is idle, but for what is too little for a Job.
      EXPECT_GE(used[QueueTree::kRoot] + 2 * world.largest() * tree.depth(), fair[QueueTree::kRoot])
          << "used " << absl::StrJoin(used, " ") << "\nfair " << absl::StrJoin(fair, " ");
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(judged, 200);
}

// Where Jobs may be ended for a guarantee, whose they are goes by what is lost, not by shares: a
// Queue may be below its share until its turn comes. Guarantees are had all the more.
TEST(SchedulerCoreSharesTest, QueuesHaveTheirGuaranteesWhereOthersEndForThem) {
  int judged = 0;
  int preemptions = 0;
  // Those with guarantees and without limits, so that one can have all that there is.
  for (uint64_t seed = 202; seed <= 214; seed += 3) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    QueueWorld::Options options = OptionsOf(seed);
    options.min_runtime = absl::ZeroDuration();
    options.backlog = 16;
    QueueWorld world(options);
    const QueueTree& tree = world.tree();
    const std::set<int> loaded = LoadedLeaves(tree);
    // The one that is guaranteed least takes all, and soon.
    const int first = *std::min_element(loaded.begin(), loaded.end(), [&world](int a, int b) {
      return world.GuaranteeOf(a) < world.GuaranteeOf(b);
    });
    for (int i = 0; i < 3; ++i) world.Tick({first});
    for (int i = 0; i < 2; ++i) world.Tick(loaded);
    for (int i = 0; i < 12; ++i) {
      world.Tick(loaded);
      const std::vector<int64_t> used = world.Used();
      const std::vector<int64_t> fair = world.FairShares();
      for (int leaf : loaded) {
        // Of more than there is, or than may be had, nobody has all.
        const int64_t guarantee = std::min(fair[leaf], world.GuaranteeOf(leaf));
        if (guarantee == 0) continue;
        EXPECT_GE(used[leaf] + Bound(world, leaf), guarantee)
            << "queue " << tree.node(leaf).id << "\nused " << absl::StrJoin(used, " ") << "\nfair "
            << absl::StrJoin(fair, " ");
        ++judged;
      }
    }
    preemptions += world.preemptions();
    if (HasFailure()) return;
  }
  EXPECT_GT(judged, 30);
  EXPECT_GT(preemptions, 5);
}

TEST(SchedulerCoreSharesTest, WhoIsEntitledToAJobGoesOnStartingJobs) {
  int judged = 0;
  for (uint64_t seed = 101; seed <= 103; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    QueueWorld::Options options = OptionsOf(seed);
    QueueWorld world(options);
    const QueueTree& tree = world.tree();
    const std::set<int> loaded = LoadedLeaves(tree);
    for (int i = 0; i < 12; ++i) world.Tick(loaded);
    const std::vector<int64_t> fair = world.FairShares();
    for (int period = 0; period < 2; ++period) {
      const std::map<int, int> before = world.starts();
      // By then all that ran at the beginning has ended, and something that was placed since.
      for (int i = 0; i < 2 * options.most_ticks; ++i) world.Tick(loaded);
      for (int leaf : loaded) {
        // One that is entitled to less than the bound of what it holds may have nothing.
        if (fair[leaf] <= Bound(world, leaf)) continue;
        const auto was = before.find(leaf);
        const auto is = world.starts().find(leaf);
        ASSERT_TRUE(is != world.starts().end()) << tree.node(leaf).id;
        EXPECT_GT(is->second, was == before.end() ? 0 : was->second) << tree.node(leaf).id;
        ++judged;
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(judged, 5);
}

// Two Queues and their guarantees, with gangs that never end by themselves and may end for others
// at once: what ends for whom comes to rest, since what is missing to guarantees falls with each
// that does (quota/README.md 6.2). Nothing comes from outside that would raise it.
class Turns {
 public:
  explicit Turns(uint64_t seed)
      : random_(seed),
        elastic_(seed % 3 == 0),
        harness_(Config()),
        executor_("local", kNodes, kMillisOfNode, &harness_) {
    harness_.set_compare_every(16);
    executor_.Connect();
    std::vector<QueueSpec> queues = {Queue("a", ""), Queue("b", "")};
    if (seed % 4 == 3) {
      queues.push_back(Queue("a1", "a"));
      queues.push_back(Queue("a2", "a"));
      // Those above have no less than those below them.
      queues[0].quotas["r0"].guarantee = Limit();
    }
    for (CreateQueue& create : CreatesOf(queues, /*millis_of_unit=*/500)) {
      create.call = harness_.next_call();
      const auto replies = Of<ReplyQueue>(harness_.Apply(create));
      EXPECT_TRUE(replies[0].queue.ok()) << replies[0].queue.status();
    }
    leaves_ = {"b"};
    if (seed % 4 == 3) {
      leaves_.insert(leaves_.end(), {"a1", "a2"});
    } else {
      leaves_.push_back("a");
    }
  }

  void Run() {
    // One has all at first; then the others come, and come to have what they are guaranteed.
    for (int i = 0; i < 12; ++i) Submit(leaves_[0]);
    Pass(absl::Minutes(1));
    for (int i = 0; i < 16; ++i) {
      Submit(leaves_[random_.Below(leaves_.size())]);
      if (random_.OneIn(3)) Pass(absl::Seconds(20));
    }
    Pass(absl::Minutes(10));
    ended_ = Ended();
    Pass(absl::Minutes(20));
    EXPECT_EQ(Ended(), ended_) << "some still end for others";
  }

  int ended() const { return ended_; }

 private:
  static constexpr int kNodes = 2;
  static constexpr int64_t kMillisOfNode = 8000;
  static constexpr int64_t kLeast = 500;

  static CoreConfig Config() {
    CoreConfig config;
    config.min_runtime = absl::ZeroDuration();
    config.min_grow_after = absl::Seconds(1);
    config.spare_for = absl::Seconds(1);
    return config;
  }

  QueueSpec Queue(std::string id, std::string parent) {
    QueueSpec spec;
    spec.id = std::move(id);
    spec.parent = std::move(parent);
    spec.weight = random_.Between(1, 4);
    Quota& quota = spec.quotas["r0"];
    // Together perhaps more than there is.
    quota.guarantee = Limit::Of(random_.Between(2, 18));
    if (random_.OneIn(2)) quota.borrowing = Limit::Of(random_.Between(0, 16));
    if (random_.OneIn(3)) quota.lending = Limit::Of(random_.Between(0, 8));
    return spec;
  }

  void Submit(const std::string& queue) {
    JobSpec spec =
        CoreHarness::Spec(static_cast<int>(random_.Between(1, 4)), random_.Between(1, 4) * kLeast);
    spec.mutable_task_groups(0)->mutable_resources()->set_memory_bytes(1 << 20);
    spec.set_queue(absl::StrCat("queues/", queue));
    spec.set_priority(static_cast<int>(random_.Below(2)));
    auto& workers = *spec.mutable_task_groups(0);
    if (elastic_ && random_.OneIn(2)) {
      workers.set_min_replicas(static_cast<int>(random_.Between(1, workers.replicas())));
      workers.set_replicas(workers.replicas() + static_cast<int>(random_.Between(1, 4)));
      *spec.mutable_checkpoint_period() = ToProto(absl::Seconds(1));
      *spec.mutable_grow_after() = ToProto(absl::Seconds(3));
    }
    harness_.Deliver(harness_.Submit(absl::StrCat("j", jobs_++), spec));
  }

  void Pass(absl::Duration d) {
    for (; d > absl::ZeroDuration(); d -= absl::Seconds(10)) {
      executor_.Renew();
      executor_.PrepareAll();
      executor_.RunAll();
      harness_.Deliver(harness_.Advance(absl::Seconds(10)));
    }
  }

  // Times that a gang was stopped of which no Task had ended.
  int Ended() const {
    const auto& events = harness_.events();
    return static_cast<int>(std::count_if(events.begin(), events.end(), [](const auto& event) {
      return event.state() == "STOPPING" && !event.has_task();
    }));
  }
  Random random_;
  const bool elastic_;
  CoreHarness harness_;
  FakeExecutor executor_;
  std::vector<std::string> leaves_;
  int jobs_ = 0;
  int ended_ = 0;
};

TEST(SchedulerCoreSharesTest, QueuesDoNotTakeTurnsInEndingEachOther) {
  int ended = 0;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Turns turns(seed);
    turns.Run();
    ended += turns.ended();
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(ended, 25);
}

}  // namespace
}  // namespace capstan::scheduler
