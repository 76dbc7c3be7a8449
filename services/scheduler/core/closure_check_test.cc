// That the judge of closures refuses what it must, and what it says of the placer: random Nodes,
// closures and gangs.
#include "services/scheduler/core/closure_check.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/tight_placer.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::JobSpec;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kTick = absl::Nanoseconds(1);
constexpr absl::Duration kNow = absl::ZeroDuration();

std::string Refused(const std::vector<Closure>& closures, absl::Duration start,
                    absl::Duration stay) {
  return std::string(CheckStay(closures, start, stay).message());
}

TEST(ClosureCheckTest, RefusesWhatBeginsInAClosure) {
  const std::vector<Closure> lasts = {{-absl::Minutes(5), absl::Minutes(5)}};
  EXPECT_THAT(Refused(lasts, kNow, absl::Seconds(1)), HasSubstr("begins 5m after the beginning"));
  EXPECT_THAT(Refused(lasts, absl::Minutes(5) - kTick, absl::Seconds(1)), HasSubstr("begins"));
  EXPECT_EQ(Refused(lasts, absl::Minutes(5), absl::InfiniteDuration()), "");
  // From its very beginning on.
  const std::vector<Closure> begins = {{kNow, absl::Minutes(5)}};
  EXPECT_THAT(Refused(begins, kNow, absl::Seconds(1)), HasSubstr("begins 0 after"));
}

TEST(ClosureCheckTest, RefusesWhatWouldRunIntoAClosure) {
  const std::vector<Closure> later = {{absl::Hours(1), absl::Hours(2)}};
  EXPECT_THAT(Refused(later, kNow, absl::Hours(1) + kTick), HasSubstr("would run into"));
  EXPECT_THAT(Refused(later, absl::Minutes(1), absl::Hours(1)), HasSubstr("would run into"));
  // Also if it would still be there when that is over.
  EXPECT_THAT(Refused(later, kNow, absl::Hours(3)), HasSubstr("would run into"));
  // Who declares no end never gets through.
  EXPECT_THAT(Refused(later, kNow, absl::InfiniteDuration()), HasSubstr("would run into"));
}

TEST(ClosureCheckTest, LetsEndJustBeforeOneAndBetweenTwo) {
  const std::vector<Closure> later = {{absl::Hours(1), absl::Hours(2)}};
  EXPECT_EQ(Refused(later, kNow, absl::Hours(1)), "");
  EXPECT_EQ(Refused(later, absl::Minutes(1), absl::Minutes(59)), "");
  EXPECT_EQ(Refused({}, kNow, absl::InfiniteDuration()), "");
  const std::vector<Closure> two = {{-absl::Hours(1), absl::Hours(1)},
                                    {absl::Hours(2), absl::Hours(3)}};
  EXPECT_EQ(Refused(two, absl::Hours(1), absl::Hours(1)), "");
  EXPECT_NE(Refused(two, absl::Hours(1), absl::Hours(1) + kTick), "");
  EXPECT_NE(Refused(two, absl::Hours(1) - kTick, absl::Hours(1)), "");
}

TEST(ClosureCheckTest, AGangIsRefusedForAnyOfItsTasks) {
  std::vector<NodeCapacity> nodes(2);
  nodes[0].id = {"c", "a"};
  nodes[1].id = {"c", "b"};
  nodes[1].closures = {{absl::Hours(1), absl::Hours(2)}};
  EXPECT_TRUE(CheckStays(nodes, {0, 0}, kNow, absl::Hours(3)).ok());
  EXPECT_THAT(std::string(CheckStays(nodes, {0, 1, 0}, kNow, absl::Hours(3)).message()),
              HasSubstr("rank 1 on clusters/c/nodes/b may stay 3h"));
}

TEST(ClosureCheckTest, AJobStaysForPrepareItsLimitAndItsGrace) {
  JobSpec spec;
  *spec.mutable_stop_grace() = ToProto(absl::Seconds(30));
  EXPECT_EQ(LongestStay(spec), absl::InfiniteDuration());
  *spec.mutable_time_limit() = ToProto(absl::Minutes(10));
  EXPECT_EQ(LongestStay(spec), absl::Minutes(11) + absl::Seconds(30));
}

TEST(ClosureCheckTest, WindowsCloseTheNodesThatTheyAreOfUntilTheyAreOver) {
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  const NodeId id = {"c", "a"};
  rec::NodeRecord node;
  (*node.mutable_observation()->mutable_labels())["rack"] = "r1";
  (*node.mutable_observation()->mutable_labels())["row"] = "w1";
  std::map<std::pair<std::string, std::string>, rec::MaintenanceWindowRecord> windows;
  const auto closures_of = [&](const std::string& cluster, const auto& change) {
    windows.clear();
    auto& window = *windows[{cluster, "w"}].mutable_window();
    window.set_name(absl::StrCat("clusters/", cluster, "/maintenanceWindows/w"));
    *window.mutable_start_time() = ToProto(now + absl::Hours(1));
    *window.mutable_end_time() = ToProto(now + absl::Hours(2));
    change(&window);
    return ClosuresBy(windows, id, node, now);
  };
  const Closure whole = {absl::Hours(1), absl::Hours(2)};
  EXPECT_THAT(closures_of("c", [](auto*) {}), IsEmpty());
  EXPECT_THAT(closures_of("c", [](auto* w) { w->set_all_nodes(true); }), ElementsAre(whole));
  EXPECT_THAT(closures_of("d", [](auto* w) { w->set_all_nodes(true); }), IsEmpty());
  EXPECT_THAT(closures_of("c", [](auto* w) { w->add_nodes("clusters/c/nodes/b"); }), IsEmpty());
  EXPECT_THAT(closures_of("c",
                          [](auto* w) {
                            w->add_nodes("clusters/c/nodes/b");
                            w->add_nodes("clusters/c/nodes/a");
                          }),
              ElementsAre(whole));
  EXPECT_THAT(closures_of("c", [](auto* w) { (*w->mutable_node_labels())["rack"] = "r1"; }),
              ElementsAre(whole));
  // All of the labels.
  EXPECT_THAT(closures_of("c",
                          [](auto* w) {
                            (*w->mutable_node_labels())["rack"] = "r1";
                            (*w->mutable_node_labels())["row"] = "w2";
                          }),
              IsEmpty());
  EXPECT_THAT(closures_of("c",
                          [now](auto* w) {
                            w->set_all_nodes(true);
                            *w->mutable_start_time() = ToProto(now - absl::Hours(1));
                            *w->mutable_end_time() = ToProto(now);
                          }),
              IsEmpty());
}

// Whatever is placed, or grows, in a round is let be by the judge; and where the judge would let it
// be and there is room, it is placed.
TEST(ClosureCheckTest, ThePlacerPutsNobodyWhereTheJudgeDoesNotLetHim) {
  Random random(23);
  int placed_beside = 0;
  int kept_out = 0;
  int grown = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    std::vector<NodeCapacity> nodes(4);
    for (size_t n = 0; n < nodes.size(); ++n) {
      nodes[n].id = {"c", absl::StrCat("n", n)};
      nodes[n].free = {random.Between(0, 3) * 1000, 1 << 30, {}};
      nodes[n].eligible = true;
      absl::Duration from = absl::Minutes(random.Between(-2, 4));
      for (int64_t c = random.Between(0, 2); c > 0; --c) {
        const absl::Duration until = from + absl::Minutes(random.Between(1, 4));
        if (until > kNow) nodes[n].closures.push_back({from, until});
        from = until + absl::Minutes(random.Between(1, 4));
      }
    }
    const auto round = TightPlacer().Begin(nodes);
    std::vector<int64_t> left;
    for (const NodeCapacity& node : nodes) left.push_back(node.free.cpu_millis / 1000);
    for (int g = 0; g < 4; ++g) {
      GangRequest gang;
      gang.groups = {{static_cast<int>(random.Between(1, 4)), {1000, 1, {}}}};
      if (random.OneIn(3)) gang.groups[0].more = static_cast<int>(random.Between(1, 3));
      if (!random.OneIn(4)) gang.duration = absl::Minutes(random.Between(1, 6));
      int64_t open = 0;
      int64_t all = 0;
      for (size_t n = 0; n < nodes.size(); ++n) {
        all += left[n];
        if (CheckStay(nodes[n].closures, kNow, gang.duration).ok()) open += left[n];
      }
      const auto placement = round->Place(gang);
      ASSERT_EQ(placement.has_value(), open >= gang.groups[0].replicas) << trial;
      kept_out += !placement.has_value() && all >= gang.groups[0].replicas ? 1 : 0;
      if (!placement.has_value()) continue;
      const absl::Status good = CheckStays(nodes, placement->nodes, kNow, gang.duration);
      ASSERT_TRUE(good.ok()) << trial << ": " << good;
      for (int node : placement->nodes) {
        --left[node];
        placed_beside += nodes[node].closures.empty() ? 0 : 1;
      }
      gang.groups[0].more += 2;
      for (const MoreTasks& more :
           round->Grow(gang, *placement, 1, [](const Amounts&) { return true; })) {
        const absl::Status beside = CheckStays(nodes, {more.node}, kNow, gang.duration);
        ASSERT_TRUE(beside.ok()) << trial << ": " << beside;
        left[more.node] -= more.count;
        ++grown;
      }
    }
  }
  // The test has to have tested something.
  EXPECT_GT(placed_beside, 2000);
  EXPECT_GT(kept_out, 1000);
  EXPECT_GT(grown, 500);
}

}  // namespace
}  // namespace capstan::scheduler
