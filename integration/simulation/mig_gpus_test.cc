// That simulated GPUs refuse and remove what a driver would, or the invariants would see nothing.
#include "integration/simulation/mig_gpus.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace capstan::simulation {
namespace {

using capstan::type::v1::MigInstance;

MigInstance Instance(int gpu, const std::string& profile, int start) {
  MigInstance instance;
  instance.set_gpu(gpu);
  instance.set_model("H100-80GB");
  instance.set_profile(profile);
  instance.set_start(start);
  return instance;
}

node_agent::MakeMigInstance Making(const MigInstance& instance,
                                   const std::vector<MigInstance>& others = {}) {
  node_agent::MakeMigInstance make;
  make.instance = instance;
  make.others = others;
  return make;
}

TEST(MigGpusTest, MakesOnceAndFindsByName) {
  MigGpus gpus("m", {"H100-80GB", "A30-24GB"});
  std::vector<MigInstance> removed;
  const auto name = gpus.Make(Making(Instance(0, "3g.40gb", 4)), &removed);
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_EQ(*gpus.Make(Making(Instance(0, "3g.40gb", 4)), &removed), *name);
  EXPECT_TRUE(removed.empty());
  ASSERT_TRUE(gpus.Find(*name).has_value());
  EXPECT_EQ(gpus.Find(*name)->start(), 4);
  EXPECT_FALSE(gpus.Find("MIG-other").has_value());
  EXPECT_TRUE(gpus.Remove(Instance(0, "3g.40gb", 4)));
  EXPECT_FALSE(gpus.Remove(Instance(0, "3g.40gb", 4)));
  EXPECT_TRUE(gpus.empty());
  EXPECT_NE(*gpus.Make(Making(Instance(0, "3g.40gb", 4)), &removed), *name);
  gpus.Clear();
  EXPECT_TRUE(gpus.empty());
}

TEST(MigGpusTest, RemovesWhatIsInTheWayUnlessItIsAnothers) {
  MigGpus gpus("m", {"H100-80GB"});
  std::vector<MigInstance> removed;
  ASSERT_TRUE(gpus.Make(Making(Instance(0, "1g.10gb", 5)), &removed).ok());
  const auto make = Making(Instance(0, "3g.40gb", 4), {Instance(0, "1g.10gb", 5)});
  EXPECT_EQ(gpus.Make(make, &removed).status().code(), absl::StatusCode::kUnavailable);
  const auto same = Making(Instance(0, "1g.10gb", 5), {Instance(0, "1g.10gb", 5)});
  EXPECT_EQ(gpus.Make(same, &removed).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(gpus.Make(Making(Instance(0, "3g.40gb", 0)), &removed).ok()) << "beside it";
  EXPECT_TRUE(removed.empty());
  EXPECT_TRUE(gpus.Make(Making(Instance(0, "3g.40gb", 4)), &removed).ok());
  ASSERT_EQ(removed.size(), 1u);
  EXPECT_EQ(removed[0].start(), 5);
}

TEST(MigGpusTest, RefusesWhatNoGpuOfTheMachineTakes) {
  MigGpus gpus("m", {"H100-80GB", "A30-24GB"});
  std::vector<MigInstance> removed;
  for (const MigInstance& wrong : {Instance(1, "1g.10gb", 0), Instance(2, "1g.10gb", 0),
                                   Instance(0, "3g.40gb", 1), Instance(0, "1g.6gb", 0)}) {
    EXPECT_EQ(gpus.Make(Making(wrong), &removed).status().code(),
              absl::StatusCode::kFailedPrecondition)
        << MigInstanceInWords(wrong);
  }
}

TEST(MigGpusTest, TellsWhatCannotStandTogether) {
  EXPECT_TRUE(
      CanStandTogether("H100-80GB", {Instance(0, "3g.40gb", 0), Instance(0, "3g.40gb", 4)}));
  EXPECT_FALSE(
      CanStandTogether("H100-80GB", {Instance(0, "3g.40gb", 0), Instance(0, "1g.10gb", 3)}));
  EXPECT_FALSE(CanStandTogether("A30-24GB", {Instance(0, "3g.40gb", 0)}));
}

}  // namespace
}  // namespace capstan::simulation
