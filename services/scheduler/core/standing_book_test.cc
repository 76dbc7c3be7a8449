#include "services/scheduler/core/standing_book.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/node.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/bench_fleet.h"
#include "services/scheduler/core/capacity_orders.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {
namespace {

using bench_fleet::kCluster;
using capstan::scheduler::v1::Node;
using capstan::type::v1::NodeObservation;

bool IsSame(const NodeStanding& a, const NodeStanding& b) {
  const auto topology = [](const NodeTopology& t) {
    return std::vector<std::string>{t.region, t.zone, t.row, t.rail, t.rack, t.nvlink_domain};
  };
  return a.capacity.id == b.capacity.id && a.capacity.free == b.capacity.free &&
         a.capacity.eligible == b.capacity.eligible &&
         a.capacity.only_submitter == b.capacity.only_submitter &&
         a.capacity.unisolated == b.capacity.unisolated &&
         a.capacity.avoided == b.capacity.avoided && a.capacity.order == b.capacity.order &&
         topology(a.capacity.topology) == topology(b.capacity.topology) &&
         a.capacity.reported == b.capacity.reported && a.capacity.closures == b.capacity.closures &&
         a.silent == b.silent && a.cordoned == b.cordoned && a.draining == b.draining &&
         a.unisolated == b.unisolated && a.nominee == b.nominee && a.maintained == b.maintained &&
         a.evicts_in == b.evicts_in;
}

// A model that changes as a core changes it, and the book beside it.
class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {
    for (int n = random_.Between(1, 6); n > 0; --n) AddNode();
  }

  void Change() {
    now_ += absl::Seconds(random_.Below(5));
    for (int n = random_.Below(5); n > 0; --n) ChangeOne();
  }

  // Another round, which leaves some Nodes other than it found them.
  void CheckRound() {
    book_.SetChanged(usage_.TakeChanged());
    std::vector<NodeStanding> standings;
    std::vector<NodeCapacity> capacities;
    book_.Take(Scene(), &standings, &capacities);
    Check(standings);
    ASSERT_EQ(capacities.size(), standings.size());
    std::vector<int> disturbed;
    for (size_t i = 0; i < standings.size(); ++i) {
      EXPECT_EQ(capacities[i].free, standings[i].capacity.free);
      EXPECT_EQ(capacities[i].revision, standings[i].capacity.revision);
      EXPECT_EQ(capacities[i].id, standings[i].capacity.id);
      if (!random_.OneIn(4)) continue;
      disturbed.push_back(static_cast<int>(i));
      if (random_.OneIn(2)) disturbed.push_back(static_cast<int>(i));
      standings[i].capacity.free.cpu_millis -= 7;
      standings[i].capacity.order = "kept";
      capacities[i].avoided = true;
    }
    book_.GiveBack(std::move(standings), std::move(capacities), disturbed);
  }
  void CheckLook() {
    book_.SetChanged(usage_.TakeChanged());
    Check(book_.Look(Scene()));
  }

 private:
  StandingBook::Scene Scene() const { return {model_, usage_, draining_, unreported_, now_}; }

  void Check(const std::vector<NodeStanding>& found) {
    const std::vector<NodeStanding> expected =
        Standings(model_, usage_, draining_, unreported_, now_);
    ASSERT_EQ(found.size(), expected.size());
    Amounts usable;
    std::set<std::string> accelerators;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(IsSame(found[i], expected[i])) << expected[i].capacity.id.Name();
      const NodeObservation& observation = *expected[i].capacity.reported;
      AddAccelerators(observation, &accelerators);
      if (expected[i].capacity.eligible) usable.Add(AllocatableOf(observation));
    }
    EXPECT_EQ(book_.usable(), usable);
    EXPECT_EQ(book_.accelerators(), accelerators);
  }

  NodeObservation Report(int index) {
    NodeObservation report = bench_fleet::NodeReport(index);
    report.mutable_allocatable()->set_cpu_millis(1000 * random_.Between(1, 4));
    if (random_.OneIn(3)) report.mutable_allocatable()->clear_accelerators();
    if (random_.OneIn(4)) {
      report.add_mig_gpus()->set_index(0);
      report.mutable_mig_gpus(0)->set_model("H100-80GB");
    }
    if (random_.OneIn(4)) report.add_limitations(NodeObservation::LIMITATION_UNISOLATED);
    if (random_.OneIn(8)) report.add_limitations(NodeObservation::LIMITATION_DRAINING);
    if (random_.OneIn(3)) (*report.mutable_labels())[kOrderLabel] = Order();
    (*report.mutable_labels())["capstan.dev/rack"] = absl::StrCat("rack-", random_.Below(2));
    return report;
  }
  std::string Order() { return absl::StrCat("order-", random_.Below(2)); }
  NodeId IdOf(int index) const { return {kCluster, bench_fleet::NodeName(index)}; }
  int AnyNode() { return static_cast<int>(random_.Below(model_.nodes.size())); }

  void AddNode() {
    const int index = static_cast<int>(model_.nodes.size());
    rec::NodeRecord& record = model_.nodes[IdOf(index)];
    record.set_state(Node::STATE_ACTIVE);
    *record.mutable_observation() = Report(index);
    book_.SetReported(IdOf(index));
  }

  void Toggle(std::set<NodeId>* ids) {
    const NodeId id = IdOf(AnyNode());
    if (ids->erase(id) == 0) ids->insert(id);
  }

  void ChangeOne() {
    const int index = AnyNode();
    rec::NodeRecord& record = model_.nodes.at(IdOf(index));
    switch (random_.Below(14)) {
      case 0:
        if (model_.nodes.size() < 12) AddNode();
        break;
      case 1:
      case 2:
        *record.mutable_observation() = Report(index);
        book_.SetReported(IdOf(index));
        break;
      case 3:
        record.set_state(random_.OneIn(2) ? Node::STATE_ACTIVE : Node::STATE_SILENT);
        book_.SetChanged(IdOf(index));
        break;
      case 4:
        if (record.cordons_size() > 0) {
          record.clear_cordons();
        } else {
          record.add_cordons();
        }
        book_.SetChanged(IdOf(index));
        break;
      case 5:
        Toggle(&draining_);
        break;
      case 6:
        Toggle(&unreported_);
        break;
      case 7:
      case 8:
        Begin();
        break;
      case 9:
      case 10:
        End();
        break;
      case 11:
        ChangeOrder();
        break;
      case 12:
        ChangeWindow();
        break;
      default:
        // What is as it was may be said to have changed.
        book_.SetChanged(IdOf(index));
    }
  }

  void Begin() {
    JobEntry& job = bench_fleet::AddQueued(bench_fleet::Gang(2, 1, 0), now_, &model_);
    job.spec.set_submitter(absl::StrCat("person-", random_.Below(2)));
    BeginGeneration(kCluster, {bench_fleet::NodeName(AnyNode()), bench_fleet::NodeName(AnyNode())},
                    {2}, &job);
    usage_.Update(job.uid(), &job);
    live_.push_back(job.uid());
  }
  void End() {
    if (live_.empty()) return;
    std::swap(live_[random_.Below(live_.size())], live_.back());
    usage_.Update(live_.back(), nullptr);
    live_.pop_back();
  }

  void ChangeOrder() {
    const std::string id = Order();
    if (random_.OneIn(3)) {
      model_.capacity_orders.erase(id);
      return;
    }
    rec::CapacityOrderRecord& record = model_.capacity_orders[id];
    record.mutable_order()->set_cluster(
        absl::StrCat("clusters/", random_.OneIn(4) ? "other" : kCluster));
    record.set_used(random_.OneIn(4));
    record.set_nominee_uid(random_.OneIn(3) ? "" : absl::StrCat("uid-", random_.Below(2)));
  }

  void ChangeWindow() {
    if (!model_.maintenance_windows.empty()) return model_.maintenance_windows.clear();
    auto& window = *model_.maintenance_windows[{kCluster, "w"}].mutable_window();
    window.set_all_nodes(random_.OneIn(2));
    window.add_nodes(IdOf(AnyNode()).Name());
    *window.mutable_start_time() = ToProto(now_ + absl::Seconds(random_.Below(4)));
    *window.mutable_end_time() = ToProto(now_ + absl::Seconds(random_.Between(5, 9)));
  }

  Random random_;
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  Model model_;
  NodeUsage usage_{/*keeps_changed=*/true};
  std::set<NodeId> draining_;
  std::set<NodeId> unreported_;
  std::vector<std::string> live_;
  StandingBook book_;
};

TEST(StandingBookTest, SaysWhatIsFoundAnewWhateverHasChanged) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    World world(seed);
    for (int round = 0; round < 20; ++round) {
      world.Change();
      seed % 3 == 0 ? world.CheckLook() : world.CheckRound();
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace capstan::scheduler
