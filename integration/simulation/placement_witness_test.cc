// That the witness of placements sees each thing that it is for: steps that no core would decide.
#include "integration/simulation/placement_witness.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/simulation/mutants.h"
#include "integration/simulation/network.h"
#include "integration/simulation/scheduler_actor.h"
#include "integration/simulation/section_check.h"
#include "integration/simulation/world.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/capacity_orders.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/model.h"

namespace capstan::simulation {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::NodeRequirement;
using capstan::type::v1::Stop;
using scheduler::JobEntry;
using scheduler::PutCapacityOrder;
using scheduler::PutMaintenanceWindow;
using scheduler::rec::GangHeadRecord;
using ::testing::HasSubstr;

// Nodes n0 and n1; a Job `waits`, for which order `more` keeps n1 if there is one.
class PlacementWitnessTest : public ::testing::Test {
 protected:
  PlacementWitnessTest()
      : world_(1),
        network_(&world_),
        clock_(&world_),
        leader_(&network_, &clock_, "scheduler-a", &store_, nullptr, nullptr, &mutants_),
        witness_(&world_, &store_) {
    for (const char* name : {"n0", "n1"}) {
      scheduler::rec::NodeRecord node;
      node.mutable_observation()->set_node(name);
      if (std::string(name) == "n1") {
        (*node.mutable_observation()->mutable_labels())[scheduler::kOrderLabel] = "more";
      }
      Store(scheduler::PutNode({"c", name}, node));
    }
    waits_ = Make("waits");
    waits_.state.set_reason(scheduler::kOrdered);
    StoreAll(waits_);
  }

  static JobEntry Make(const std::string& uid) {
    JobEntry job;
    job.spec.set_name(absl::StrCat("projects/p/jobs/", uid));
    job.spec.set_uid(uid);
    auto& group = *job.spec.mutable_spec()->add_task_groups();
    group.set_name("w");
    group.set_replicas(1);
    job.state.set_state(Job::STATE_QUEUED);
    return job;
  }
  void Store(const store::Put& put) { store_.disk.records[put.key] = put.value; }
  void StoreAll(const JobEntry& job) {
    for (const store::Put& put : PutsOf(job)) Store(put);
  }
  static std::vector<store::Put> PutsOf(const JobEntry& job) {
    std::vector<store::Put> puts = {PutJobSpec(job), PutJobState(job)};
    if (!job.gang.has_value()) return puts;
    puts.push_back(PutGangHead(job));
    for (store::Put& put : PutPlacements(job)) puts.push_back(std::move(put));
    puts.push_back(PutTaskChunk(job, 0));
    return puts;
  }
  // The window w of n0, from and until so long from now.
  store::Put Window(absl::Duration from, absl::Duration until, bool evict = false) {
    scheduler::rec::MaintenanceWindowRecord record;
    auto& window = *record.mutable_window();
    window.set_name("clusters/c/maintenanceWindows/w");
    window.add_nodes("clusters/c/nodes/n0");
    *window.mutable_start_time() = ToProto(Wall() + from);
    *window.mutable_end_time() = ToProto(Wall() + until);
    window.set_evict(evict);
    return PutMaintenanceWindow({"c", "w"}, record);
  }
  scheduler::rec::CapacityOrderRecord Order() {
    scheduler::rec::CapacityOrderRecord record;
    auto& order = *record.mutable_order();
    order.set_name("capacityOrders/more");
    order.set_cluster("clusters/c");
    order.set_nodes(1);
    *order.mutable_expire_time() = ToProto(Wall() + absl::Hours(1));
    record.set_nominee_uid("waits");
    return record;
  }
  absl::Time Wall() const { return clock_.Read().wall; }

  void Lead() { See(scheduler::LeadershipGained(), {}); }
  void See(const scheduler::Event& event, scheduler::Write write) {
    scheduler::Step step;
    step.persist.push_back(std::move(write));
    witness_.SawStep(leader_, event, clock_.Read(), step);
  }
  // Decides that the Job is placed there.
  void Place(JobEntry job, const std::string& node,
             absl::Duration time_limit = absl::InfiniteDuration(),
             std::vector<store::Put> with = {}) {
    if (time_limit != absl::InfiniteDuration()) {
      *job.spec.mutable_spec()->mutable_time_limit() = ToProto(time_limit);
    }
    scheduler::BeginGeneration("c", {node}, {1}, &job);
    job.state.set_state(Job::STATE_PREPARING);
    job.state.set_reason("PLACED");
    scheduler::Write write;
    write.puts = PutsOf(job);
    write.puts.insert(write.puts.end(), with.begin(), with.end());
    See(scheduler::Tick(), std::move(write));
  }
  std::string Seen() const { return world_.violation(); }

  World world_;
  Network network_;
  MachineClock clock_;
  Mutants mutants_;
  SharedStore store_;
  SchedulerActor leader_;
  PlacementWitness witness_;
  JobEntry waits_;
};

TEST_F(PlacementWitnessTest, SeesATaskWhereLabelsAreNotAsRequired) {
  const auto requires_label = [](NodeRequirement::Operator op, const std::string& value) {
    JobEntry job = Make(absl::StrCat("labels", static_cast<int>(op), value));
    auto& requirement = *job.spec.mutable_spec()->mutable_task_groups(0)->add_node_requirements();
    requirement.set_key(scheduler::kOrderLabel);
    requirement.set_operator_(op);
    if (!value.empty()) requirement.add_values(value);
    return job;
  };
  Lead();
  Place(requires_label(NodeRequirement::OPERATOR_IN, "more"), "n1");
  Place(requires_label(NodeRequirement::OPERATOR_NOT_IN, "less"), "n1");
  Place(requires_label(NodeRequirement::OPERATOR_EXISTS, ""), "n1");
  Place(requires_label(NodeRequirement::OPERATOR_NOT_IN, "more"), "n0");
  Place(requires_label(NodeRequirement::OPERATOR_DOES_NOT_EXIST, ""), "n0");
  EXPECT_EQ(Seen(), "");
  EXPECT_EQ(witness_.placed_by_labels(), 5);
  JobEntry job = Make("wrong");
  *job.spec.mutable_spec()->add_node_requirements() =
      requires_label(NodeRequirement::OPERATOR_IN, "less")
          .spec.spec()
          .task_groups(0)
          .node_requirements(0);
  Place(job, "n1");
  EXPECT_THAT(Seen(), HasSubstr("rank 0 of job wrong is placed on clusters/c/nodes/n1"));
}

TEST_F(PlacementWitnessTest, LetsBeWhoIsOverBeforeAWindowOrBesideIt) {
  Store(Window(absl::Minutes(10), absl::Minutes(20)));
  Lead();
  Place(Make("short"), "n0", absl::Minutes(9));
  Place(Make("beside"), "n1");
  EXPECT_EQ(Seen(), "");
  EXPECT_EQ(witness_.placed_before(), 1);
}

TEST_F(PlacementWitnessTest, SeesWhoIsPlacedInAWindow) {
  Store(Window(-absl::Minutes(1), absl::Minutes(20)));
  Lead();
  Place(Make("short"), "n0", absl::Seconds(1));
  EXPECT_THAT(Seen(), HasSubstr("job short is placed on clusters/c/nodes/n0, where a maintenance"));
}

TEST_F(PlacementWitnessTest, SeesWhoWouldRunIntoAWindowThatThisTermHasMade) {
  Lead();
  scheduler::Write made;
  made.puts = {Window(absl::Minutes(10), absl::Minutes(20))};
  See(scheduler::CreateMaintenanceWindow(), made);
  EXPECT_EQ(Seen(), "");
  Place(Make("long"), "n0", absl::Minutes(9) + absl::Seconds(1));
  EXPECT_THAT(Seen(), HasSubstr("would run into a closure"));
}

TEST_F(PlacementWitnessTest, SeesAGangWithoutWhatItNeedsOrWithAPartOfASection) {
  JobEntry job = Make("parts");
  auto& spec = *job.spec.mutable_spec();
  spec.set_min_sections(1);
  for (const char* name : {"needed", "spare", "within"}) spec.add_sections()->set_name(name);
  spec.mutable_sections(1)->set_min_sections(1);
  spec.mutable_sections(2)->set_parent("spare");
  spec.add_sections()->set_name("more");
  spec.mutable_sections(3)->set_parent("spare");
  // w is in none of them.
  for (const char* section : {"needed", "within", "spare", "more"}) {
    auto& group = *spec.add_task_groups();
    group.set_name(absl::StrCat("of-", section));
    group.set_section(section);
    group.set_replicas(2);
    group.set_min_replicas(1);
  }
  const auto placed = [&](std::vector<int> sizes) {
    int tasks = 0;
    for (int size : sizes) tasks += size;
    scheduler::BeginGeneration("c", std::vector<std::string>(tasks, "n0"), sizes, &job);
    return CheckSections(job);
  };
  for (const std::vector<int>& sizes :
       std::vector<std::vector<int>>{{1, 2, 0, 0, 0}, {1, 1, 1, 2, 0}, {1, 1, 1, 1, 1}}) {
    EXPECT_EQ(placed(sizes).wrong, "");
  }
  EXPECT_EQ(placed({1, 1, 1, 1, 0}).there, 1);
  EXPECT_EQ(placed({1, 1, 1, 1, 0}).left_out, 1);
  EXPECT_EQ(placed({1, 0, 0, 0, 0}).wrong, "has 0 of of-needed, which needs 1");
  EXPECT_EQ(placed({1, 1, 1, 0, 0}).wrong, "has 0 of of-spare, which needs 1");
  EXPECT_EQ(placed({1, 1, 0, 0, 1}).wrong, "has more without spare");
  Lead();
  scheduler::Write write;
  write.puts = PutsOf(job);
  See(scheduler::Tick(), write);
  // Who reads the records refuses it before.
  EXPECT_THAT(Seen(), HasSubstr("the record at 'gang of job parts' cannot be read"));
}

TEST_F(PlacementWitnessTest, SeesAStopThatNoWindowAskedFor) {
  Store(Window(-absl::Minutes(1), absl::Minutes(20), /*evict=*/false));
  JobEntry job = Make("there");
  scheduler::BeginGeneration("c", {"n0"}, {1}, &job);
  StoreAll(job);
  Lead();
  job.gang->head.set_phase(GangHeadRecord::PHASE_STOPPING);
  job.gang->head.set_stop_reason(Stop::REASON_MAINTENANCE);
  scheduler::Write write;
  write.puts = {PutGangHead(job)};
  See(scheduler::Tick(), write);
  EXPECT_THAT(Seen(), HasSubstr("job there is stopped for maintenance, and no window stops it"));
}

TEST_F(PlacementWitnessTest, SeesAWindowThatIsRemovedEarly) {
  Store(Window(-absl::Minutes(1), absl::Minutes(20)));
  Lead();
  scheduler::Write write;
  write.deletes = {{Window(absl::ZeroDuration(), absl::Seconds(1)).key, ""}};
  See(scheduler::Tick(), write);
  EXPECT_THAT(Seen(), HasSubstr("maintenanceWindows/w is removed before it is over"));
}

TEST_F(PlacementWitnessTest, LetsGoOfAWindowThatIsOverOrThatSomebodyDeletes) {
  for (const bool asked : {true, false}) {
    const store::Put window =
        Window(-absl::Minutes(2), asked ? absl::Minutes(1) : -absl::Minutes(1));
    Store(window);
    Lead();
    scheduler::Write write;
    write.deletes = {{window.key, ""}};
    See(asked ? scheduler::Event(scheduler::DeleteMaintenanceWindow{0, "c", "w", ""})
              : scheduler::Event(scheduler::Tick()),
        write);
    EXPECT_EQ(Seen(), "");
  }
}

TEST_F(PlacementWitnessTest, SeesThatWhatWasAcknowledgedIsNotStored) {
  Store(Window(absl::Minutes(1), absl::Minutes(20)));
  witness_.WindowAcknowledged("c", "w");
  EXPECT_EQ(Seen(), "");
  witness_.OrderAcknowledged("more");
  EXPECT_THAT(Seen(), HasSubstr("capacity_orders/more is not stored"));
}

TEST_F(PlacementWitnessTest, SeesAStrangerOnANodeThatIsKept) {
  Store(PutCapacityOrder("more", Order()));
  Lead();
  Place(Make("beside"), "n0");
  EXPECT_EQ(Seen(), "");
  Place(Make("stranger"), "n1", absl::Minutes(5));
  EXPECT_THAT(Seen(), HasSubstr("job stranger is placed on clusters/c/nodes/n1, which is kept for "
                                "waits by order more"));
}

TEST_F(PlacementWitnessTest, LetsWhoIsOverInTimeOntoANodeThatIsKept) {
  scheduler::rec::CapacityOrderRecord order = Order();
  *order.mutable_order()->mutable_expected_time() = ToProto(Wall() + absl::Minutes(6));
  Store(PutCapacityOrder("more", order));
  Lead();
  Place(Make("short"), "n1", absl::Minutes(5));
  EXPECT_EQ(Seen(), "");
  Place(Make("longer"), "n1", absl::Minutes(5) + absl::Seconds(1));
  EXPECT_THAT(Seen(), HasSubstr("job longer is placed"));
}

TEST_F(PlacementWitnessTest, SeesAnOrderThatItsNomineeDoesNotUse) {
  Store(PutCapacityOrder("more", Order()));
  Lead();
  Place(waits_, "n1");
  EXPECT_THAT(Seen(), HasSubstr("job waits is placed on Nodes of order more, which is not used"));
}

TEST_F(PlacementWitnessTest, CountsAnOrderThatIsUsed) {
  Store(PutCapacityOrder("more", Order()));
  Lead();
  scheduler::rec::CapacityOrderRecord order = Order();
  order.set_used(true);
  Place(waits_, "n1", absl::InfiniteDuration(), {PutCapacityOrder("more", order)});
  EXPECT_EQ(Seen(), "");
  EXPECT_EQ(witness_.orders_used(), 1);
}

TEST_F(PlacementWitnessTest, SeesANomineeThatDoesNotWait) {
  Store(PutCapacityOrder("more", Order()));
  Lead();
  waits_.state.set_reason("QUEUE_HELD");
  scheduler::Write write;
  write.puts = {PutJobState(waits_)};
  See(scheduler::Tick(), write);
  EXPECT_THAT(Seen(), HasSubstr("order more keeps Nodes for waits, which does not wait for them"));
}

TEST_F(PlacementWitnessTest, SeesAnOrderThatIsRemovedEarly) {
  const store::Put order = PutCapacityOrder("more", Order());
  Store(order);
  Lead();
  scheduler::Write write;
  write.deletes = {{order.key, ""}};
  See(scheduler::Tick(), write);
  EXPECT_THAT(Seen(), HasSubstr("capacityOrders/more is removed before it is void"));
}

}  // namespace
}  // namespace capstan::simulation
