// That moving comes to an end: whoever waits, and however small the bounds are.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "services/scheduler/core/repartition_test_fixture.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;

// Nobody is protected, and there is no pause.
class World final : public SchedulerCoreRepartitionTest {
 public:
  explicit World(uint64_t seed) : SchedulerCoreRepartitionTest(Free()), random_(seed) {
    executor_.set_mig_gpus(2, {"H100-80GB", "H100-80GB"});
    executor_.ReportNode(2, false);
  }
  // Lets some Jobs stand at random, has others wait, and lets everybody do what they do until
  // nothing changes.
  void Run();
  // Times that others were moved for one that waited, and Jobs that were.
  int plans() const { return Count("MAKING_ROOM", "moved"); }
  int moved() const { return Count("REPARTITIONED", ""); }

 private:
  void TestBody() override {}
  static CoreConfig Free() {
    CoreConfig config = Config();
    config.repartition_max_cost = absl::Hours(1000);
    config.repartition_pause = absl::ZeroDuration();
    return config;
  }
  // Changes of Jobs to that reason, with a message that has such a part.
  int Count(const std::string& reason, const std::string& part) const {
    int count = 0;
    for (const auto& event : harness_.events()) {
      count += event.reason() == reason && !event.has_task() &&
                       event.message().find(part) != std::string::npos
                   ? 1
                   : 0;
    }
    return count;
  }

  Random random_;
};

void World::Run() {
  static constexpr const char* kProfiles[] = {"1g.10gb", "1g.10gb", "1g.10gb", "2g.20gb",
                                              "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"};
  const auto any = [this](uint64_t upto) {
    return Sliced(random_.OneIn(4) ? 2 : 1, kProfiles[random_.Below(upto)]);
  };
  std::vector<std::string> uids;
  for (int i = 0; i < 18; ++i) {
    uids.push_back(absl::StrCat("s", i));
    Submit(uids.back(), any(6));
    EndStopped();
    Work();
  }
  for (const std::string& uid : uids) {
    if (StateOf(uid) == Job::STATE_QUEUED || random_.OneIn(2)) Cancel(uid);
  }
  EndStopped();
  Work();
  const int before = plans();
  constexpr int kWaiting = 6;
  for (int i = 0; i < kWaiting; ++i) {
    uids.push_back(absl::StrCat("w", i));
    Submit(uids.back(), any(8));
  }
  std::set<std::string> running;
  for (int i = 0; i < 10; ++i) {
    EndStopped();
    Work();
    Pass(absl::Seconds(1));
    for (const std::string& uid : uids) {
      if (StateOf(uid) == Job::STATE_RUNNING) running.insert(uid);
      // Who ran waits for nobody but those that are moved beside it.
      if (running.count(uid) > 0 && StateOf(uid) == Job::STATE_QUEUED) {
        ASSERT_EQ(ReasonOf(uid), "RETURNING") << uid << ": " << MessageOf(uid);
      }
    }
  }
  EXPECT_LE(plans() - before, kWaiting);
  // It has come to rest, and whoever ran does.
  const int at_rest = moved();
  Pass(absl::Minutes(1));
  EXPECT_EQ(moved(), at_rest);
  for (const std::string& uid : running) {
    EXPECT_EQ(StateOf(uid), Job::STATE_RUNNING) << uid << ": " << MessageOf(uid);
  }
}

TEST(RepartitionPropertyTest, ThereAreNoMoreMovesThanJobsThatWait) {
  int plans = 0;
  int moved = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    World world(seed);
    world.Run();
    plans += world.plans();
    moved += world.moved();
    if (HasFailure()) return;
  }
  // The test has to have tested something.
  EXPECT_GT(plans, 10);
  EXPECT_GT(moved, 15);
}

}  // namespace
}  // namespace capstan::scheduler
