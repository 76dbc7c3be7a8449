// That the simulated schedulers lead as real ones do: an invariant that breaks must say something
// about the schedulers, not about the world that they are in.
#include "integration/simulation/scheduler_actor.h"

#include <functional>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "integration/simulation/fleet.h"

namespace capstan::simulation {
namespace {

class SchedulerActorTest : public ::testing::Test {
 protected:
  SchedulerActorTest() : fleet_(Config()) { fleet_.Start(); }

  static FleetConfig Config() {
    FleetConfig config;
    config.seed = 5;
    config.clusters = 1;
    config.nodes_per_cluster = 1;
    return config;
  }
  void RunUntil(const std::function<bool()>& reached, absl::Duration limit) {
    const absl::Duration until = fleet_.world().now() + limit;
    while (!reached() && fleet_.world().now() < until && fleet_.world().Step()) {
    }
    EXPECT_EQ(fleet_.world().violation(), "");
    EXPECT_TRUE(reached());
  }
  SchedulerActor* Leader() {
    for (const auto& scheduler : fleet_.schedulers()) {
      if (scheduler->core() != nullptr) return scheduler.get();
    }
    return nullptr;
  }

  Fleet fleet_;
};

TEST_F(SchedulerActorTest, ALifeDoesNotTakeUpTheTermOfTheLifeBefore) {
  for (int time = 0; time < 5; ++time) {
    RunUntil([this] { return Leader() != nullptr; }, absl::Minutes(1));
    const int64_t epoch = fleet_.store().epoch;
    const absl::Duration lease_ends = fleet_.store().lease_ends;
    SchedulerActor* const leader = Leader();
    leader->Crash();
    leader->Start();
    RunUntil([this] { return Leader() != nullptr; }, absl::Minutes(1));
    EXPECT_GT(fleet_.store().epoch, epoch);
    EXPECT_GE(fleet_.world().now(), lease_ends);
  }
}

}  // namespace
}  // namespace capstan::simulation
