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
using capstan::type::v1::TaskEnd;

// Nobody is protected, and there is no pause.
class World final : public SchedulerCoreRepartitionTest {
 public:
  explicit World(uint64_t seed)
      : SchedulerCoreRepartitionTest(Free(), /*beside_anew=*/seed % 5 < 2), random_(seed) {
    executor_.set_mig_gpus(2, {"H100-80GB", "H100-80GB"});
    executor_.ReportNode(2, false);
  }
  // Lets some Jobs stand at random, has others wait, and lets everybody do what they do until
  // nothing changes.
  void Run();
  // The same beside leaders that die, also in the middle of what they write, Nodes that fall silent,
  // cancels and Tasks that fail; then all is well again, and nobody may be left behind.
  void RunAmongFaults();
  int crashes() const { return crashes_; }
  // Times that others were moved for one that waited, and Jobs that were.
  int plans() const { return Count("MAKING_ROOM", "moved"); }
  int moved() const { return Count("REPARTITIONED", ""); }

 private:
  void TestBody() override {}
  std::string Any() { return uids_[random_.Below(uids_.size())]; }
  v1::JobSpec AnySpec(uint64_t upto);
  void Occupy();
  void Disturb();
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
  std::vector<std::string> uids_;
  int crashes_ = 0;
};

v1::JobSpec World::AnySpec(uint64_t upto) {
  static constexpr const char* kProfiles[] = {"1g.10gb", "1g.10gb", "1g.10gb", "2g.20gb",
                                              "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"};
  return Sliced(random_.OneIn(4) ? 2 : 1, kProfiles[random_.Below(upto)]);
}

void World::Occupy() {
  for (int i = 0; i < 18; ++i) {
    uids_.push_back(absl::StrCat("s", i));
    Submit(uids_.back(), AnySpec(6));
    EndStopped();
    Work();
  }
  for (const std::string& uid : uids_) {
    if (StateOf(uid) == Job::STATE_QUEUED || random_.OneIn(2)) Cancel(uid);
  }
  EndStopped();
  Work();
}

void World::Disturb() {
  switch (random_.Below(8)) {
    case 0: {
      executor_.Disconnect();
      ++crashes_;
      const std::string uid = absl::StrCat("c", crashes_);
      harness_.Deliver(harness_.CrashIn(harness_.SubmitEvent(uid, AnySpec(8)), random_.Below(5)));
      if (harness_.jobs().Find(uid) != nullptr) uids_.push_back(uid);
      break;
    }
    case 1:
      NewLeader();
      break;
    case 2:
      executor_.ReportNode(static_cast<int>(random_.Below(3)), random_.OneIn(2));
      break;
    case 3:
      Cancel(Any());
      break;
    case 4:
      EndAll(Any(), random_.OneIn(2) ? TaskEnd::CAUSE_EXITED : TaskEnd::CAUSE_LOST);
      break;
    default:
      EndStopped(Any());
      Work();
      break;
  }
  if (!executor_.connected() && random_.OneIn(2)) executor_.Connect();
}

void World::RunAmongFaults() {
  Occupy();
  for (int i = 0; i < 60 && !HasFailure(); ++i) {
    if (random_.OneIn(6)) {
      uids_.push_back(absl::StrCat("w", i));
      Submit(uids_.back(), AnySpec(8));
    }
    Disturb();
    if (random_.OneIn(2)) Pass(absl::Seconds(random_.Between(1, 4)));
  }
  if (!executor_.connected()) executor_.Connect();
  for (int node = 0; node < 3; ++node) executor_.ReportNode(node, /*silent=*/false);
  for (int i = 0; i < 15; ++i) {
    EndStopped();
    Work();
    Pass(absl::Seconds(30));
  }
  for (const std::string& uid : uids_) {
    const std::string reason = ReasonOf(uid);
    const bool rests = StateOf(uid) == Job::STATE_RUNNING || harness_.job(uid).final() ||
                       reason == "INSUFFICIENT_RESOURCES" || reason == "RESERVED";
    EXPECT_TRUE(rests) << uid << ": " << reason << ", " << MessageOf(uid);
  }
  for (int i = 0; i < 60; ++i) {
    for (const std::string& uid : uids_) EndAll(uid);
    EndStopped();
    Work();
  }
  for (const std::string& uid : uids_) {
    EXPECT_TRUE(harness_.job(uid).final()) << uid << ": " << ReasonOf(uid) << MessageOf(uid);
  }
}

void World::Run() {
  Occupy();
  const int before = plans();
  constexpr int kWaiting = 6;
  for (int i = 0; i < kWaiting; ++i) {
    uids_.push_back(absl::StrCat("w", i));
    Submit(uids_.back(), AnySpec(8));
  }
  std::set<std::string> running;
  for (int i = 0; i < 10; ++i) {
    EndStopped();
    Work();
    Pass(absl::Seconds(1));
    for (const std::string& uid : uids_) {
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

TEST(RepartitionPropertyTest, NobodyIsLeftBehindWhateverHappensInTheMiddle) {
  int plans = 0;
  int moved = 0;
  int crashes = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    World world(seed);
    world.RunAmongFaults();
    plans += world.plans();
    moved += world.moved();
    crashes += world.crashes();
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(plans, 10);
  EXPECT_GT(moved, 10);
  EXPECT_GT(crashes, 50);
}

}  // namespace
}  // namespace capstan::scheduler
