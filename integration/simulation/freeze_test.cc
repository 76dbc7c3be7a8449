// Many Nodes fall silent at once: the observer is suspected, and nothing is re-placed by time-out
// until it is over or a person confirms. 20 Nodes in four Clusters; one Cluster has room for all
// and is not hit.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "integration/simulation/fleet.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/leases.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::simulation {
namespace {

constexpr int kClusters = 4;
constexpr int kNodesPerCluster = 5;
constexpr int kReplicas = 4;
constexpr absl::Duration kFence = absl::Minutes(1);
constexpr uint64_t kSeeds = 2;

class Frozen {
 public:
  explicit Frozen(uint64_t seed) : seed_(seed), fleet_(Config(seed)), world_(fleet_.world()) {}

  // Three gangs run, one in each of the Clusters but the first, which comes only then.
  void Begin() {
    fleet_.Start();
    fleet_.executors()[0]->Crash();
    for (int c = 1; c < kClusters; ++c) {
      const auto job = fleet_.MakeJob(kReplicas, kFence);
      job->spec.add_clusters("c0");
      job->spec.add_clusters(absl::StrCat("c", c));
      fleet_.Submit(job);
    }
    RunUntil(absl::Minutes(3), [this] { return fleet_.witness().live() == kJobs * kReplicas; });
    fleet_.executors()[0]->Start();
    RunFor(absl::Minutes(1));
  }

  // The executors of so many Clusters from the schedulers.
  void CutExecutors(int count, bool cut) {
    for (int c = 1; c <= count; ++c) {
      for (const auto& scheduler : fleet_.schedulers()) {
        Cut(fleet_.executors()[c]->name(), scheduler->name(), cut);
      }
    }
  }
  // So many Nodes of each Cluster but the first from their executors, those with Tasks first.
  void CutNodes(int count, bool cut) {
    if (cut) {
      for (int c = 1; c < kClusters; ++c) ChooseNodes(c, count);
    }
    for (const size_t i : nodes_)
      Cut(fleet_.agents()[i]->name(), fleet_.executor_of(i)->name(), cut);
  }

  void RunFor(absl::Duration d) {
    const absl::Duration until = world_.now() + d;
    RunUntil(d, [this, until] { return world_.now() >= until; }, /*must=*/false);
  }
  void RunUntil(absl::Duration limit, const std::function<bool()>& reached, bool must = true) {
    const absl::Duration until = world_.now() + limit;
    bool done = reached();
    while (!done && world_.violation().empty() && world_.now() < until && world_.Step()) {
      done = reached();
    }
    EXPECT_EQ(world_.violation(), "");
    EXPECT_TRUE(done || !must);
  }

  // As the one that leads says.
  bool IsFrozen() const {
    for (const auto& scheduler : fleet_.schedulers()) {
      if (scheduler->core() != nullptr) return scheduler->core()->leases().frozen();
    }
    return false;
  }
  void KillTheLeader() {
    for (const auto& scheduler : fleet_.schedulers()) {
      if (scheduler->core() == nullptr) continue;
      scheduler->Crash();
      RunFor(absl::Seconds(20));
      scheduler->Start();
      return;
    }
  }
  void Confirm() {
    bool told = false;
    for (const auto& scheduler : fleet_.schedulers()) {
      told = told || scheduler->Tell(scheduler::ConfirmSilence{});
    }
    EXPECT_TRUE(told);
  }

  // Tasks of second generations, and those of them in the first Cluster.
  int Restarted() { return Restarted(""); }
  int RestartedInTheFirst() { return Restarted("c0-"); }
  size_t live() { return fleet_.witness().live(); }
  uint64_t seed() const { return seed_; }

  // It is over, and all Jobs do their work.
  void Settle() {
    std::string why;
    absl::Duration next = world_.now();
    RunUntil(absl::Minutes(60), [&] {
      if (world_.now() < next) return false;
      next = world_.now() + absl::Seconds(20);
      return fleet_.Settled(kJobs, &why);
    });
    EXPECT_EQ(fleet_.witness().jobs().size(), static_cast<size_t>(kJobs)) << why;
  }

  static constexpr int kJobs = kClusters - 1;

 private:
  static FleetConfig Config(uint64_t seed) {
    FleetConfig config;
    config.seed = seed;
    config.clusters = kClusters;
    config.nodes_per_cluster = kNodesPerCluster;
    config.cluster_manager = true;
    config.program.step_time = absl::Seconds(10);
    config.program.steps_per_checkpoint = 6;
    config.program.steps = 90;
    config.program.failure_one_in = 0;
    config.program.port_taken_one_in = 0;
    return config;
  }

  void Cut(const std::string& a, const std::string& b, bool cut) {
    Network& network = fleet_.network();
    cut ? network.Cut(a, b) : network.Heal(a, b);
    cut ? network.Cut(b, a) : network.Heal(b, a);
  }
  void ChooseNodes(int cluster, int count) {
    std::set<size_t> chosen;
    for (const bool busy : {true, false}) {
      for (int n = 0; n < kNodesPerCluster; ++n) {
        const auto i = static_cast<size_t>(cluster * kNodesPerCluster + n);
        if (static_cast<int>(chosen.size()) < count && fleet_.machines()[i]->busy() == busy) {
          chosen.insert(i);
        }
      }
    }
    nodes_.insert(chosen.begin(), chosen.end());
  }
  int Restarted(const std::string& machines) {
    int restarted = 0;
    for (const auto& life : fleet_.witness().lives()) {
      restarted += life.id.generation > 1 && absl::StartsWith(life.machine, machines) ? 1 : 0;
    }
    return restarted;
  }

  const uint64_t seed_;
  Fleet fleet_;
  World& world_;
  std::set<size_t> nodes_;
};

// Longer than a gang waits to be re-placed.
absl::Duration LongAfterTheFence() {
  return scheduler::CoreConfig().ReplaceAfter(kFence) + absl::Minutes(5);
}

// What must be while it lasts: the Tasks have ended themselves, and no gang has begun again; under
// a second leader too, which counts everything anew.
void ExpectFrozen(Frozen* world) {
  world->RunFor(LongAfterTheFence());
  EXPECT_TRUE(world->IsFrozen());
  EXPECT_EQ(world->live(), 0u);
  EXPECT_EQ(world->Restarted(), 0);
  if (world->seed() % 2 == 1) {
    world->KillTheLeader();
    world->RunFor(LongAfterTheFence());
    EXPECT_TRUE(world->IsFrozen());
    EXPECT_EQ(world->Restarted(), 0);
  }
}

TEST(FreezeTest, NothingIsReplacedWhileManyExecutorsAreSilent) {
  for (uint64_t seed = 0; seed < kSeeds && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Frozen world(seed);
    world.Begin();
    world.CutExecutors(3, true);
    ExpectFrozen(&world);
    world.CutExecutors(3, false);
    // What has ended is confirmed now, and begins again.
    world.RunUntil(absl::Minutes(3), [&world] {
      return world.Restarted() == Frozen::kJobs * kReplicas && !world.IsFrozen();
    });
    world.Settle();
  }
}

TEST(FreezeTest, NothingIsReplacedWhileManyNodesAreSilent) {
  for (uint64_t seed = 0; seed < kSeeds && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Frozen world(seed);
    world.Begin();
    world.CutNodes(kNodesPerCluster, true);
    ExpectFrozen(&world);
    world.CutNodes(kNodesPerCluster, false);
    world.RunUntil(absl::Minutes(3), [&world] {
      return world.Restarted() == Frozen::kJobs * kReplicas && !world.IsFrozen();
    });
    world.Settle();
  }
}

TEST(FreezeTest, ReplacesOnceAPersonConfirms) {
  for (uint64_t seed = 0; seed < kSeeds && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Frozen world(seed);
    world.Begin();
    const bool of_executors = seed == 0;
    of_executors ? world.CutExecutors(3, true) : world.CutNodes(kNodesPerCluster, true);
    ExpectFrozen(&world);
    world.Confirm();
    world.RunUntil(absl::Minutes(2),
                   [&world] { return world.RestartedInTheFirst() == Frozen::kJobs * kReplicas; });
    of_executors ? world.CutExecutors(3, false) : world.CutNodes(kNodesPerCluster, false);
    world.Settle();
  }
}

// Fewer: no observer is suspected, and gangs begin again elsewhere by themselves.
TEST(FreezeTest, AFewAreReplacedAsEver) {
  for (uint64_t seed = 0; seed < 2; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Frozen world(seed);
    world.Begin();
    seed == 0 ? world.CutExecutors(2, true) : world.CutNodes(2, true);
    world.RunFor(LongAfterTheFence());
    EXPECT_FALSE(world.IsFrozen());
    EXPECT_GE(world.Restarted(), 2 * kReplicas);
    seed == 0 ? world.CutExecutors(2, false) : world.CutNodes(2, false);
    world.Settle();
  }
}

}  // namespace
}  // namespace capstan::simulation
