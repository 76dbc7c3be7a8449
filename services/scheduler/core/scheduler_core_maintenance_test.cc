// Maintenance windows: who may run before, what happens during, and what is foreseen of after.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/core_test_fixture.h"
#include "services/scheduler/core/maintenance.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::ExplainJobResponse;
using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::MaintenanceWindow;
using capstan::type::v1::Stop;
using capstan::type::v1::TaskEnd;
using ::testing::HasSubstr;

constexpr absl::Duration kForever = absl::InfiniteDuration();

// Two Nodes of 4 cores.
class MaintenanceTest : public SchedulerCoreTest {
 protected:
  // What it may hold a Node for is its limit, 30 s of grace, and a minute of PREPARE.
  static JobSpec Spec(int replicas, absl::Duration time_limit) {
    JobSpec spec = CoreHarness::Spec(replicas, 1000);
    if (time_limit != kForever) *spec.mutable_time_limit() = ToProto(time_limit);
    return spec;
  }
  static constexpr absl::Duration kBeside = absl::Seconds(90);

  // Of n0, from and until so long from now.
  MaintenanceWindow Window(absl::Duration from, absl::Duration until, bool evict = false) {
    MaintenanceWindow window;
    window.add_nodes("clusters/local/nodes/n0");
    *window.mutable_start_time() = ToProto(harness_.now().wall + from);
    *window.mutable_end_time() = ToProto(harness_.now().wall + until);
    window.set_evict(evict);
    return window;
  }
  CreateMaintenanceWindow Creating(const std::string& id, const MaintenanceWindow& window) {
    CreateMaintenanceWindow event;
    event.call = harness_.next_call();
    event.cluster = "local";
    event.window_id = event.uid = id;
    event.creator = "operator-1";
    event.window = window;
    return event;
  }
  absl::StatusOr<MaintenanceWindow> Make(const CreateMaintenanceWindow& event) {
    const std::vector<Effect> effects = harness_.Apply(event);
    executor_.Take(effects);
    return Of<ReplyMaintenanceWindow>(effects).at(0).window;
  }
  void Create(const std::string& id, const MaintenanceWindow& window) {
    const auto made = Make(Creating(id, window));
    ASSERT_TRUE(made.ok()) << made.status();
  }
  absl::Status Delete(const std::string& id, const std::string& etag = "") {
    const std::vector<Effect> effects =
        harness_.Apply(DeleteMaintenanceWindow{harness_.next_call(), "local", id, etag});
    executor_.Take(effects);
    return Of<ReplyEmpty>(effects).at(0).status;
  }
  std::set<std::string> NodesOf(const std::string& uid) {
    const auto& nodes = harness_.job(uid).gang->nodes;
    return {nodes.begin(), nodes.end()};
  }
  absl::Duration Wait(const std::string& uid) {
    return ToTime(harness_.job(uid).state.estimated_start_time()) - harness_.now().wall;
  }
  void StartAll() {
    executor_.PrepareAll();
    executor_.RunAll();
  }
};

TEST_F(MaintenanceTest, OnlyWhatIsOverBeforeMayRunThere) {
  executor_.Connect();
  Create("disks", Window(absl::Hours(1), absl::Hours(2)));
  Submit("forever", Spec(8, kForever));
  Submit("long", Spec(8, absl::Hours(1) - kBeside + absl::Seconds(1)));
  EXPECT_EQ(ReasonOf("forever"), "INSUFFICIENT_RESOURCES");
  EXPECT_EQ(ReasonOf("long"), "INSUFFICIENT_RESOURCES");
  Submit("short", Spec(8, absl::Hours(1) - kBeside));
  EXPECT_EQ(StateOf("short"), Job::STATE_PREPARING);
}

TEST_F(MaintenanceTest, WhoIsTooLongTakesOtherNodesAndOthersOfItsShapeAreTriedAllTheSame) {
  executor_.Connect();
  Create("disks", Window(absl::Hours(1), absl::Hours(2)));
  executor_.Disconnect();
  // All are tried in one round.
  for (const char* id : {"a", "b", "c"}) Submit(id, Spec(2, kForever));
  for (const char* id : {"d", "e"}) Submit(id, Spec(2, absl::Minutes(10)));
  executor_.Connect();
  EXPECT_EQ(NodesOf("a"), (std::set<std::string>{"n1"}));
  EXPECT_EQ(NodesOf("b"), (std::set<std::string>{"n1"}));
  EXPECT_EQ(StateOf("c"), Job::STATE_QUEUED);
  EXPECT_EQ(NodesOf("d"), (std::set<std::string>{"n0"}));
  EXPECT_EQ(NodesOf("e"), (std::set<std::string>{"n0"}));
}

TEST_F(MaintenanceTest, ExplainSaysHowManyNodesAreLeftOut) {
  executor_.Connect();
  Create("disks", Window(absl::Hours(1), absl::Hours(2)));
  Submit("forever", Spec(8, kForever));
  Submit("long", Spec(8, absl::Hours(3)));
  const auto maintenance = [this](const std::string& uid) {
    const ExplainJobResponse explained = Explained(uid);
    for (const auto& constraint : explained.constraints()) {
      if (constraint.type() == "maintenance") return constraint;
    }
    return ExplainJobResponse::Constraint();
  };
  EXPECT_EQ(maintenance("forever").nodes(), 1);
  EXPECT_EQ(maintenance("forever").node_fits(0).node(), "clusters/local/nodes/n0");
  EXPECT_THAT(maintenance("forever").message(), HasSubstr("without a time_limit"));
  EXPECT_EQ(maintenance("long").nodes(), 1);
  EXPECT_THAT(maintenance("long").message(),
              HasSubstr("1 of 2 nodes is in a maintenance window, or will be before"));
  EXPECT_THAT(harness_.job("long").state.message(), HasSubstr("maintenance window"));
}

TEST_F(MaintenanceTest, WhileItLastsNothingIsPlacedAndThenAllAtOnce) {
  executor_.Connect();
  MaintenanceWindow window = Window(absl::ZeroDuration(), absl::Minutes(10));
  window.clear_start_time();
  Create("disks", window);
  Submit("one", Spec(8, absl::Seconds(1)));
  EXPECT_EQ(StateOf("one"), Job::STATE_QUEUED);
  AdvanceHeard(absl::Minutes(10) - absl::Seconds(3));
  EXPECT_EQ(StateOf("one"), Job::STATE_QUEUED);
  AdvanceHeard(absl::Seconds(3));
  EXPECT_EQ(StateOf("one"), Job::STATE_PREPARING);
  EXPECT_TRUE(harness_.core().model().maintenance_windows.empty());
}

TEST_F(MaintenanceTest, WithoutEvictWhatRunsGoesOn) {
  executor_.Connect();
  RunJob("there", Spec(8, kForever));
  Create("disks", Window(absl::Minutes(1), absl::Minutes(10)));
  AdvanceHeard(absl::Minutes(12));
  EXPECT_EQ(StateOf("there"), Job::STATE_RUNNING);
  EXPECT_EQ(harness_.job("there").state.generation(), 1);
}

TEST_F(MaintenanceTest, EvictStopsWholeGangsAndTheyComeBackUncounted) {
  executor_.Connect();
  JobSpec both = Spec(2, kForever);
  both.mutable_task_groups(0)->mutable_resources()->set_cpu_millis(3000);
  both.mutable_retry()->set_max_restarts(0);
  RunJob("both", both);
  RunJob("small", Spec(1, kForever));
  ASSERT_EQ(NodesOf("both").size(), 2u);
  Create("disks", Window(absl::Minutes(1), absl::Minutes(10), /*evict=*/true));
  AdvanceHeard(absl::Seconds(57));
  EXPECT_EQ(StateOf("both"), Job::STATE_RUNNING);
  executor_.Renew();
  const std::vector<Effect> effects = harness_.Advance(absl::Seconds(3));
  EXPECT_EQ(StateOf("both"), Job::STATE_STOPPING);
  EXPECT_EQ(ReasonOf("both"), "MAINTENANCE");
  EXPECT_EQ(harness_.job("both").gang->head.stop_reason(), Stop::REASON_MAINTENANCE);
  executor_.Take(effects);
  EXPECT_EQ(StateOf("both"), Job::STATE_QUEUED);
  EXPECT_EQ(ReasonOf("both"), "MAINTENANCE");
  EXPECT_EQ(harness_.job("both").state.counted_restarts(), 0);
  EXPECT_EQ(harness_.job("both").state.preemptions(), 0);
  EXPECT_THAT(Explained("both").summary(), HasSubstr("was stopped for a maintenance window"));
  AdvanceHeard(absl::Minutes(9));
  StartAll();
  EXPECT_EQ(StateOf("both"), Job::STATE_RUNNING);
  EXPECT_EQ(harness_.job("both").state.generation(), 2);
}

TEST_F(MaintenanceTest, EvictStopsWhatIsThereAlreadyWhenAWindowIsMade) {
  executor_.Connect();
  RunJob("there", Spec(8, kForever));
  Submit("waits", Spec(1, absl::Minutes(1)));
  Create("now", Window(absl::ZeroDuration(), absl::Minutes(10), /*evict=*/true));
  EXPECT_EQ(ReasonOf("there"), "MAINTENANCE");
  EXPECT_EQ(StateOf("there"), Job::STATE_QUEUED);
  // Who is over before the one that was stopped can come back takes what is left.
  ASSERT_EQ(StateOf("waits"), Job::STATE_PREPARING);
  EXPECT_EQ(NodesOf("waits"), (std::set<std::string>{"n1"}));
  MaintenanceWindow other = Window(absl::ZeroDuration(), absl::Minutes(5), /*evict=*/true);
  other.set_nodes(0, "clusters/local/nodes/n1");
  Create("other", other);
  EXPECT_EQ(ReasonOf("waits"), "MAINTENANCE");
}

TEST_F(MaintenanceTest, TheEstimateOfWhoNeedsTheNodesLiesBehindTheWindow) {
  executor_.Connect();
  RunJob("all", Spec(8, absl::Minutes(30)));
  Create("disks", Window(absl::Hours(1), absl::Hours(2)));
  Submit("forever", Spec(8, kForever));
  EXPECT_EQ(Wait("forever"), absl::Hours(2));
  EXPECT_FALSE(harness_.job("forever").state.estimate_assumed());
  harness_.Apply(CancelJob{harness_.next_call(), "projects/p/jobs/forever", ""});
  // Over in time, if it begins when the other has gone.
  Submit("short", Spec(8, absl::Minutes(15)));
  EXPECT_EQ(Wait("short"), absl::Minutes(30) + absl::Seconds(30));
  harness_.Apply(CancelJob{harness_.next_call(), "projects/p/jobs/short", ""});
  // And not.
  Submit("longer", Spec(8, absl::Minutes(29)));
  EXPECT_EQ(Wait("longer"), absl::Hours(2));
  // As soon as the window is called off it is foreseen anew.
  ASSERT_TRUE(Delete("disks").ok());
  EXPECT_EQ(Wait("longer"), absl::Minutes(30) + absl::Seconds(30));
  Create("again", Window(absl::Hours(1), absl::Hours(3)));
  EXPECT_EQ(Wait("longer"), absl::Hours(3));
}

TEST_F(MaintenanceTest, WhoIsToBeEvictedIsForeseenToHaveGone) {
  executor_.Connect();
  RunJob("there", Spec(5, kForever));
  MaintenanceWindow window = Window(absl::Hours(1), absl::Hours(20), /*evict=*/true);
  Create("disks", window);
  // On n1, once the gang that is on both has been stopped.
  Submit("next", Spec(4, kForever));
  EXPECT_EQ(Wait("next"), absl::Hours(1) + absl::Seconds(30));
  EXPECT_FALSE(harness_.job("next").state.estimate_assumed());
}

TEST_F(MaintenanceTest, WhoStartsByItsEstimateDoes) {
  executor_.Connect();
  RunJob("all", Spec(8, absl::Minutes(3)));
  Create("disks", Window(absl::Minutes(5), absl::Minutes(7)));
  Submit("next", Spec(8, absl::Minutes(2)));
  const absl::Duration wait = Wait("next");
  EXPECT_EQ(wait, absl::Minutes(7));
  // One that is over by then goes before it, one that is not does not.
  Submit("fits", Spec(1, absl::Seconds(10)));
  Submit("late", Spec(1, absl::Minutes(10)));
  executor_.End("all/1/worker-0", TaskEnd::CAUSE_EXITED);
  EXPECT_EQ(StateOf("fits"), Job::STATE_PREPARING);
  EXPECT_EQ(StateOf("late"), Job::STATE_QUEUED);
  StartAll();
  for (const std::string& key : executor_.Keys()) executor_.End(key, TaskEnd::CAUSE_EXITED);
  AdvanceHeard(wait);
  EXPECT_EQ(StateOf("next"), Job::STATE_PREPARING);
}

TEST_F(MaintenanceTest, NobodyIsEndedForWhoCouldNotStayThere) {
  executor_.Connect();
  for (int i = 0; i < 8; ++i) RunJob(absl::StrCat("low", i), Spec(1, kForever));
  AdvanceHeard(absl::Minutes(6));
  Create("disks", Window(absl::Hours(1), absl::Hours(2)));
  JobSpec high = Spec(8, absl::Hours(2));
  high.set_priority(1);
  Submit("high", high);
  EXPECT_EQ(ReasonOf("high"), "INSUFFICIENT_RESOURCES");
  // It would fit if the others were gone at once, but they have their grace.
  JobSpec close = Spec(8, absl::Hours(1) - kBeside - absl::Seconds(10));
  close.set_priority(2);
  Submit("close", close);
  EXPECT_EQ(ReasonOf("close"), "INSUFFICIENT_RESOURCES");
  JobSpec brief = Spec(8, absl::Minutes(10));
  brief.set_priority(3);
  Submit("brief", brief);
  EXPECT_EQ(StateOf("brief"), Job::STATE_PREPARING);
}

TEST_F(MaintenanceTest, NodesAreChosenByLabelAlsoIfTheyChange) {
  executor_.set_labels(0, {{"rack", "a"}, {"row", "1"}});
  executor_.set_labels(1, {{"rack", "b"}, {"row", "1"}});
  executor_.Connect();
  MaintenanceWindow window = Window(absl::ZeroDuration(), absl::Minutes(10), /*evict=*/true);
  window.clear_nodes();
  (*window.mutable_node_labels())["rack"] = "a";
  (*window.mutable_node_labels())["row"] = "1";
  const auto made = Make(Creating("row", window));
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->node_count(), 1);
  RunJob("one", Spec(4, kForever));
  EXPECT_EQ(NodesOf("one"), (std::set<std::string>{"n1"}));
  // Moved into the rack.
  executor_.set_labels(1, {{"rack", "a"}, {"row", "1"}});
  executor_.ReportNode(1, /*silent=*/false);
  EXPECT_EQ(ReasonOf("one"), "MAINTENANCE");
  EXPECT_EQ(StateOf("one"), Job::STATE_QUEUED);
}

TEST_F(MaintenanceTest, ALeaderThatDiesAtAnyWriteLeavesTheNextOneToStopTheRest) {
  for (size_t writes = 0; writes <= 4; ++writes) {
    SCOPED_TRACE(writes);
    CoreHarness harness{Config()};
    FakeExecutor executor{"local", 2, 4000, &harness};
    executor.Connect();
    for (int i = 0; i < 3; ++i)
      executor.Take(harness.Submit(absl::StrCat("j", i), Spec(2, kForever)));
    executor.PrepareAll();
    executor.RunAll();
    CreateMaintenanceWindow create = Creating("now", MaintenanceWindow());
    create.window.set_all_nodes(true);
    create.window.set_evict(true);
    *create.window.mutable_end_time() = ToProto(harness.now().wall + absl::Minutes(10));
    harness.CrashIn(create, writes);
    executor.Disconnect();
    const bool stored = writes > 0;
    ASSERT_EQ(harness.core().model().maintenance_windows.size(), stored ? 1u : 0u);
    harness.Advance(absl::ZeroDuration());
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(harness.job(absl::StrCat("j", i)).state.reason(),
                stored ? "MAINTENANCE" : "STARTED");
    }
    executor.Connect();
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(harness.job(absl::StrCat("j", i)).state.state(),
                stored ? Job::STATE_QUEUED : Job::STATE_RUNNING);
    }
  }
}

TEST_F(MaintenanceTest, WhatHappensWhileNobodyLeadsIsMadeUpFor) {
  executor_.Connect();
  RunJob("there", Spec(8, kForever));
  Create("begins", Window(absl::Minutes(1), absl::Minutes(20), /*evict=*/true));
  Create("ends", Window(absl::Minutes(5), absl::Minutes(6)));
  executor_.Disconnect();
  harness_.Sleep(absl::Minutes(10));
  harness_.NewLeader();
  harness_.Advance(absl::ZeroDuration());
  EXPECT_EQ(ReasonOf("there"), "MAINTENANCE");
  EXPECT_EQ(harness_.core().model().maintenance_windows.size(), 1u);
}

TEST_F(MaintenanceTest, AWallClockThatIsSetIsFollowed) {
  executor_.Connect();
  RunJob("there", Spec(8, kForever));
  Create("disks", Window(absl::Minutes(1), absl::Minutes(20), /*evict=*/true));
  harness_.StepWallClock(-absl::Minutes(5));
  AdvanceHeard(absl::Minutes(5));
  EXPECT_EQ(StateOf("there"), Job::STATE_RUNNING);
  AdvanceHeard(absl::Minutes(1));
  EXPECT_EQ(ReasonOf("there"), "MAINTENANCE");
  harness_.StepWallClock(absl::Minutes(30));
  executor_.Renew();
  EXPECT_TRUE(harness_.core().model().maintenance_windows.empty());
}

TEST_F(MaintenanceTest, WhatIsWrongIsRefused) {
  executor_.Connect();
  const auto refused = [this](const MaintenanceWindow& window) {
    return std::string(Make(Creating("bad", window)).status().message());
  };
  MaintenanceWindow window = Window(absl::Hours(1), absl::Hours(2));
  window.add_nodes("clusters/local/nodes/absent");
  EXPECT_THAT(refused(window), HasSubstr("absent"));
  EXPECT_THAT(refused(Window(-absl::Hours(2), -absl::Hours(1))), HasSubstr("after now"));
  EXPECT_THAT(refused(Window(absl::Hours(24 * 367), absl::Hours(24 * 367 + 1))),
              HasSubstr("from now"));
  window = Window(absl::ZeroDuration(), absl::Hours(24 * 32));
  window.clear_start_time();
  EXPECT_THAT(refused(window), HasSubstr("after start_time"));
  CreateMaintenanceWindow elsewhere = Creating("bad", Window(absl::Hours(1), absl::Hours(2)));
  elsewhere.cluster = "unheard-of";
  elsewhere.window.clear_nodes();
  elsewhere.window.set_all_nodes(true);
  EXPECT_THAT(std::string(Make(elsewhere).status().message()), HasSubstr("unheard-of"));
  EXPECT_TRUE(harness_.core().model().maintenance_windows.empty());

  Create("disks", Window(absl::Hours(1), absl::Hours(2)));
  EXPECT_EQ(Make(Creating("disks", Window(absl::Hours(1), absl::Hours(2)))).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Delete("absent").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Delete("disks", "\"other\"").code(), absl::StatusCode::kAborted);
  for (size_t i = 1; i < kMaxMaintenanceWindows; ++i) {
    Create(absl::StrCat("w", i), Window(absl::Hours(1), absl::Hours(2)));
  }
  EXPECT_EQ(Make(Creating("more", Window(absl::Hours(1), absl::Hours(2)))).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(MaintenanceTest, ARequestThatIsRepeatedMakesOne) {
  executor_.Connect();
  CreateMaintenanceWindow create = Creating("disks", Window(absl::Hours(1), absl::Hours(2)));
  create.request_id = "id";
  create.body_hash = "hash";
  const auto made = Make(create);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->name(), "clusters/local/maintenanceWindows/disks");
  EXPECT_EQ(made->creator(), "operator-1");
  create.uid = "another";
  const auto again = Make(create);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->uid(), "disks");
  ASSERT_TRUE(Delete("disks", made->etag()).ok());
  EXPECT_EQ(Make(create).status().code(), absl::StatusCode::kNotFound);
  create.body_hash = "other";
  EXPECT_EQ(Make(create).status().code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace capstan::scheduler
