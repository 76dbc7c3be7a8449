// Whom the service's rounds end, against a judge that knows nothing of how they are found: they are
// enough, each is needed and may end, and where nobody is named nobody helps. For gangs of equal
// Tasks under one level, for which a sum says whether they fit.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "services/scheduler/core/placement.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/round/need.h"
#include "services/scheduler/core/tight_placer.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Topology;
using round::Need;

// Some may end, and what ends must be so much at least before the Queues let the other one start.
class SomeOfThem final : public VictimRules {
 public:
  SomeOfThem(std::vector<bool> may, std::vector<int64_t> cpu, int64_t least)
      : may_(std::move(may)), cpu_(std::move(cpu)), least_(least) {}

  bool MayEvict(int held) const override { return may_[held]; }
  std::vector<int> Together(const std::vector<int>& held) const override { return held; }
  void SetEnded(int held, bool ended) override {
    if (ended) {
      ended_.insert(held);
    } else {
      ended_.erase(held);
    }
  }
  bool MayStart() const override { return MayStart(ended_); }
  bool MayStart(const std::set<int>& ended) const {
    int64_t sum = 0;
    for (int held : ended) sum += cpu_[held];
    return sum >= least_;
  }

 private:
  std::vector<bool> may_;
  std::vector<int64_t> cpu_;
  int64_t least_;
  std::set<int> ended_;
};

struct Scene {
  std::vector<NodeCapacity> nodes;
  std::vector<HeldGang> held;
  GangRequest gang;
  std::vector<bool> may;
  int64_t least = 0;
};

Scene RandomScene(Random* random) {
  Scene scene;
  const int nodes = static_cast<int>(random->Between(1, 6));
  // A rail has several racks.
  const bool has_rails = random->OneIn(2);
  for (int n = 0; n < nodes; ++n) {
    NodeCapacity& node = scene.nodes.emplace_back();
    node.id = {"c", absl::StrCat("n", n)};
    node.free = {1000 * static_cast<int64_t>(random->Between(2, 8)), 1 << 30, {}};
    node.eligible = !random->OneIn(10);
    (has_rails ? node.topology.rail : node.topology.rack) = absl::StrCat("r", n % 2);
    if (has_rails) node.topology.rack = absl::StrCat("rack", n);
  }
  const int gangs = static_cast<int>(random->Between(1, 10));
  for (int g = 0; g < gangs; ++g) {
    HeldGang held;
    held.uid = absl::StrCat("held-", g);
    for (int n = 0; n < nodes; ++n) {
      const int64_t cpu = 1000 * static_cast<int64_t>(random->Between(1, 3));
      if (!random->OneIn(3) || scene.nodes[n].free.cpu_millis < cpu) continue;
      held.shares.push_back({n, {cpu, 1, {}}});
      scene.nodes[n].free.cpu_millis -= cpu;
    }
    if (held.shares.empty()) continue;
    held.priority = static_cast<int32_t>(random->Between(0, 2));
    held.preemptible = !random->OneIn(6);
    held.ending = random->OneIn(8);
    held.left = absl::Hours(1);
    held.unsaved = absl::Minutes(static_cast<int64_t>(random->Below(60)));
    scene.held.push_back(std::move(held));
    scene.may.push_back(!random->OneIn(5));
  }
  GangRequest::Group group;
  group.replicas = static_cast<int>(random->Between(1, 6));
  group.each = {1000 * static_cast<int64_t>(random->Between(1, 3)), 1, {}};
  scene.gang.groups = {group};
  if (random->OneIn(3)) {
    scene.gang.topology.set_required(has_rails ? Topology::LEVEL_RAIL : Topology::LEVEL_RACK);
  }
  if (random->OneIn(3)) scene.least = 1000 * static_cast<int64_t>(random->Between(1, 4));
  return scene;
}

int64_t CpuOf(const HeldGang& gang) {
  int64_t cpu = 0;
  for (const auto& [node, amounts] : gang.shares) cpu += amounts.cpu_millis;
  return cpu;
}

// Of its Tasks, how many fit where most do once these, and those that are ending, have gone.
int64_t MostThatFit(const Scene& scene, const std::set<int>& gone) {
  std::vector<int64_t> free;
  for (const NodeCapacity& node : scene.nodes) free.push_back(node.free.cpu_millis);
  for (int g = 0; g < static_cast<int>(scene.held.size()); ++g) {
    if (!scene.held[g].ending && gone.count(g) == 0) continue;
    for (const auto& [node, amounts] : scene.held[g].shares) free[node] += amounts.cpu_millis;
  }
  const GangRequest::Group& group = scene.gang.groups[0];
  const Topology::Level level = scene.gang.topology.required();
  int64_t most = 0;
  for (const std::string domain : {"r0", "r1"}) {
    int64_t fit = 0;
    for (size_t n = 0; n < scene.nodes.size(); ++n) {
      const NodeCapacity& node = scene.nodes[n];
      const bool is_in = level == Topology::LEVEL_UNSPECIFIED || NameOf(node, level) == domain;
      if (!node.eligible || !is_in) continue;
      fit += free[n] / group.each.cpu_millis;
    }
    most = std::max(most, fit);
  }
  return most;
}

bool Fits(const Scene& scene, const std::set<int>& gone) {
  return MostThatFit(scene, gone) >= scene.gang.groups[0].replicas;
}

TEST(VictimsPropertyTest, AreEnoughAndNeededAndThereAreNoneOnlyWhereNobodyHelps) {
  int found = 0;
  int vain = 0;
  int several = 0;
  int for_queues = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    const Scene scene = RandomScene(&random);
    std::vector<int64_t> cpu;
    std::set<int> all;
    for (int g = 0; g < static_cast<int>(scene.held.size()); ++g) {
      const HeldGang& held = scene.held[g];
      cpu.push_back(CpuOf(held));
      if (held.preemptible && !held.ending && scene.may[g]) all.insert(g);
    }
    SomeOfThem rules(scene.may, cpu, scene.least);
    const auto suffice = [&](const std::set<int>& gone) {
      return Fits(scene, gone) && rules.MayStart(gone);
    };
    if (suffice({})) continue;  // the caller does not ask
    const auto round = TightPlacer().Begin(scene.nodes, scene.held);
    const std::vector<Victim> victims = round->FindVictims(scene.gang, /*priority=*/3, &rules);
    std::set<int> chosen;
    for (const Victim& victim : victims) chosen.insert(victim.held);
    const std::string words = absl::StrCat("seed ", seed, ": ", absl::StrJoin(chosen, ","));
    if (victims.empty()) {
      ++vain;
      EXPECT_FALSE(suffice(all)) << words;
      continue;
    }
    ++found;
    several += victims.size() > 1 ? 1 : 0;
    EXPECT_EQ(chosen.size(), victims.size()) << words;
    EXPECT_TRUE(std::includes(all.begin(), all.end(), chosen.begin(), chosen.end())) << words;
    EXPECT_TRUE(suffice(chosen)) << words;
    for (const auto& [victim, need] : victims) {
      std::set<int> without = chosen;
      without.erase(victim);
      EXPECT_FALSE(suffice(without)) << words << " without " << victim;
      // The certificate, by sums of its own.
      const bool has_room = Fits(scene, without);
      EXPECT_EQ(need.kind, has_room ? Need::Kind::kQueues : Need::Kind::kRoom) << words;
      EXPECT_EQ(need.tasks, has_room ? 0 : MostThatFit(scene, without)) << words;
      for_queues += has_room ? 1 : 0;
    }
  }
  EXPECT_GT(found, 500);
  EXPECT_GT(several, 200);
  EXPECT_GT(vain, 200);
  EXPECT_GT(for_queues, 50);
}

// In rack b either x and y or all ten of the others would have to end; in rack a, where z is in the
// way too, nobody but x, y and z may. By what each costs and frees alone, x and y look dear in b: the
// search finds x, y and z there, and without z both fit into b.
TEST(VictimsTest, NobodyEndsWhoseStayLeavesRoomInAnotherDomain) {
  constexpr int kTasks = 10;
  Scene scene;
  const auto add_node = [&scene](const std::string& rack) {
    NodeCapacity& node = scene.nodes.emplace_back();
    node.id = {"c", absl::StrCat("n", scene.nodes.size() + 100)};
    node.eligible = true;
    node.topology.rack = rack;
    return static_cast<int>(scene.nodes.size()) - 1;
  };
  const auto add_gang = [&scene](absl::Duration unsaved) {
    HeldGang& gang = scene.held.emplace_back();
    gang.uid = absl::StrCat("held-", scene.held.size() + 100);
    gang.preemptible = true;
    gang.left = absl::Hours(1);
    gang.unsaved = unsaved;
    return static_cast<int>(scene.held.size()) - 1;
  };
  const int x = add_gang(absl::Seconds(60));
  const int y = add_gang(absl::Seconds(60));
  const int z = add_gang(absl::Seconds(60));
  const auto share = [&scene](int gang, int node, int64_t cpu) {
    scene.held[gang].shares.push_back({node, {cpu, 1, {}}});
  };
  for (int i = 0; i < 2 * kTasks - 1; ++i) {
    const int node = add_node(i < kTasks - 1 ? "a" : "b");
    share(x, node, 1000);
    share(y, node, 1000);
  }
  share(z, add_node("a"), 2000);
  for (int i = 0; i < kTasks; ++i) share(add_gang(absl::Seconds(150)), add_node("b"), 2000);
  GangRequest::Group group;
  group.replicas = kTasks;
  group.each = {2000, 1, {}};
  scene.gang.groups = {group};
  scene.gang.topology.set_required(Topology::LEVEL_RACK);
  SomeOfThem rules(std::vector<bool>(scene.held.size(), true),
                   std::vector<int64_t>(scene.held.size(), 0), 0);
  const auto round = TightPlacer().Begin(scene.nodes, scene.held);
  EXPECT_EQ(round->FindVictims(scene.gang, /*priority=*/3, &rules),
            (std::vector<Victim>{{x, {Need::Kind::kRoom, 0}}, {y, {Need::Kind::kRoom, 0}}}));
}

}  // namespace
}  // namespace capstan::scheduler
