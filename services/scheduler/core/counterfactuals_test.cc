#include "services/scheduler/core/counterfactuals.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/core_test_fixture.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::ExplainJobResponse;
using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Topology;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Constraint = ExplainJobResponse::Constraint;
using Counterfactual = ExplainJobResponse::Counterfactual;
using Hindrance = ExplainJobResponse::Hindrance;

// Two Nodes of 4 cores, in racks of their own.
class CounterfactualsTest : public SchedulerCoreTest {
 protected:
  CounterfactualsTest() {
    executor_.set_labels(0, {{"capstan.dev/rack", "r10"}});
    executor_.set_labels(1, {{"capstan.dev/rack", "r11"}});
  }
  static JobSpec Spec(int replicas, int priority, const std::string& queue = "default") {
    JobSpec spec = CoreHarness::Spec(replicas, 1000);
    spec.set_priority(priority);
    spec.set_queue(absl::StrCat("queues/", queue));
    return spec;
  }
  ExplainJobResponse Explain(const std::string& uid) {
    const Model& model = harness_.core().model();
    const absl::Time now = harness_.now().wall;
    NodeUsage usage;
    for (const auto& [id, job] : model.jobs) usage.Update(id, &job);
    const auto standings = Standings(model, usage, {}, {}, now);
    return ExplainWhole(model, usage, harness_.job(uid), standings, harness_.config(), now);
  }
  // Those of the kind.
  std::vector<Counterfactual> Explain(const std::string& uid, Counterfactual::Kind kind) {
    std::vector<Counterfactual> found;
    const ExplainJobResponse why = Explain(uid);
    for (const Counterfactual& one : why.counterfactuals()) {
      if (one.kind() == kind) found.push_back(one);
    }
    return found;
  }
  // A Job of another Project.
  void RunElsewhere(const std::string& id, JobSpec spec) {
    CreateJob create = harness_.SubmitEvent(id, std::move(spec));
    create.project = "projects/other";
    executor_.Take(harness_.Apply(create));
    executor_.PrepareAll();
    executor_.RunAll();
    ASSERT_EQ(StateOf(id), Job::STATE_RUNNING);
  }
  void CreateQueue(const std::string& id, int64_t guarantee, int64_t borrow) {
    scheduler::CreateQueue create;
    create.call = harness_.next_call();
    create.queue_id = create.uid = id;
    auto& quota = *create.queue.add_quotas();
    quota.set_resource("cpu");
    quota.set_guarantee(guarantee);
    quota.mutable_borrowing_limit()->set_amount(borrow);
    const std::vector<Effect> effects = harness_.Apply(create);
    executor_.Take(effects);
    const auto replies = Of<ReplyQueue>(effects);
    ASSERT_TRUE(replies[0].queue.ok()) << replies[0].queue.status();
  }
  std::set<std::string> Stopping() {
    std::set<std::string> names;
    for (const auto& [uid, job] : harness_.core().model().jobs) {
      if (job.state.state() == Job::STATE_STOPPING) names.insert(job.spec.name());
    }
    return names;
  }
};

TEST_F(CounterfactualsTest, SaysWhatWouldHaveToComeFreeAndWhere) {
  executor_.Connect();
  RunJob("a", Spec(3, 0));
  RunJob("b", Spec(3, 0));
  JobSpec spec = Spec(2, 0);
  spec.mutable_topology()->set_required(Topology::LEVEL_RACK);
  Submit("c", spec);
  const ExplainJobResponse why = Explain("c");
  ASSERT_EQ(why.constraints_size(), 1);
  EXPECT_EQ(why.constraints(0).type(), "cpu");
  EXPECT_EQ(why.constraints(0).level(), Constraint::LEVEL_NODE);
  EXPECT_EQ(why.constraints(0).resource(), "cpu");
  EXPECT_EQ(why.constraints(0).domain().level(), Topology::LEVEL_RACK);
  EXPECT_EQ(why.constraints(0).domain().name(), "r10");
  const auto frees = Explain("c", Counterfactual::KIND_FREES);
  ASSERT_EQ(frees.size(), 1u);
  EXPECT_EQ(frees[0].message(), "fits if clusters/local/nodes/n0 frees 1 cpu");
  EXPECT_EQ(frees[0].domain().level(), Topology::LEVEL_NODE);
  EXPECT_EQ(frees[0].domain().cluster(), "clusters/local");
  ASSERT_EQ(frees[0].amounts_size(), 1);
  EXPECT_EQ(frees[0].amounts(0).resource(), "cpu");
  EXPECT_EQ(frees[0].amounts(0).amount(), 1000);
  EXPECT_EQ(frees[0].node_count(), 1);
  EXPECT_EQ(frees[0].nodes(0).amounts(0).amount(), 1000);
}

TEST_F(CounterfactualsTest, NamesTheClusterWhereSeveralRacksHaveToGiveSomething) {
  executor_.Connect();
  for (int i = 0; i < 8; ++i) RunJob(absl::StrCat("low", i), Spec(1, 0));
  Submit("wide", Spec(5, 0));
  const auto frees = Explain("wide", Counterfactual::KIND_FREES);
  ASSERT_EQ(frees.size(), 1u);
  EXPECT_EQ(frees[0].message(), "fits if clusters/local frees 5 cpu on 2 of its Nodes");
  EXPECT_EQ(frees[0].domain().level(), Topology::LEVEL_UNSPECIFIED);
  EXPECT_EQ(frees[0].node_count(), 2);
  Submit("too-wide", Spec(9, 0));
  EXPECT_THAT(Explain("too-wide").counterfactuals(), IsEmpty());
}

TEST_F(CounterfactualsTest, SaysFromWhenOnWhoMayEnd) {
  executor_.Connect();
  for (int i = 0; i < 8; ++i) RunJob(absl::StrCat("low", i), Spec(1, 0));
  Submit("high", Spec(1, 10));
  const auto preempts = Explain("high", Counterfactual::KIND_PREEMPTS);
  ASSERT_EQ(preempts.size(), 1u);
  EXPECT_EQ(preempts[0].job_count(), 1);
  ASSERT_EQ(preempts[0].jobs_size(), 1);
  ASSERT_EQ(preempts[0].hindrances_size(), 1);
  EXPECT_EQ(preempts[0].hindrances(0).kind(), Hindrance::KIND_MIN_RUNTIME);
  EXPECT_EQ(preempts[0].hindrances(0).job_count(), 1);
  EXPECT_THAT(preempts[0].message(),
              HasSubstr(absl::StrCat("fits after preempting ", preempts[0].jobs(0),
                                     ", which may be done from ")));
  EXPECT_EQ(ToTime(preempts[0].time()), ToTime(preempts[0].hindrances(0).until()));
  const absl::Duration left = ToTime(preempts[0].time()) - harness_.now().wall;
  EXPECT_GT(left, absl::Minutes(4));
  EXPECT_LE(left, absl::Minutes(5));
  AdvanceHeard(left - absl::Seconds(1));
  EXPECT_EQ(ReasonOf("high"), "INSUFFICIENT_RESOURCES");
  AdvanceHeard(absl::Seconds(3));
  EXPECT_EQ(StateOf("high"), Job::STATE_PREPARING);
}

TEST_F(CounterfactualsTest, SaysWhyNobodyMayEnd) {
  executor_.Connect();
  for (int i = 0; i < 7; ++i) RunJob(absl::StrCat("same", i), Spec(1, 5));
  RunElsewhere("others", Spec(1, 5));
  AdvanceHeard(absl::Minutes(6));
  Submit("a", Spec(8, 5));
  auto preempts = Explain("a", Counterfactual::KIND_PREEMPTS);
  ASSERT_EQ(preempts.size(), 1u);
  EXPECT_EQ(preempts[0].job_count(), 8);
  EXPECT_EQ(preempts[0].jobs_size(), 7);
  for (const std::string& name : preempts[0].jobs()) {
    EXPECT_THAT(name, HasSubstr("projects/p/jobs/same"));
  }
  EXPECT_THAT(preempts[0].message(), HasSubstr("1 Job of other Projects, which is not done: "
                                               "8 Jobs of its Queue have no lower priority"));
  EXPECT_THAT(preempts[0].message(), Not(HasSubstr("projects/other")));
  EXPECT_FALSE(preempts[0].has_time());
  ASSERT_EQ(preempts[0].hindrances_size(), 1);
  EXPECT_EQ(preempts[0].hindrances(0).kind(), Hindrance::KIND_PRIORITY);
  // Of another Queue, which has no guarantee.
  CreateQueue("b", 0, 100'000);
  Submit("b", Spec(1, 1000, "b"));
  preempts = Explain("b", Counterfactual::KIND_PREEMPTS);
  ASSERT_EQ(preempts.size(), 1u);
  ASSERT_EQ(preempts[0].hindrances_size(), 1);
  EXPECT_EQ(preempts[0].hindrances(0).kind(), Hindrance::KIND_GUARANTEE);
}

// Of those that are ended for nobody nothing is said.
TEST_F(CounterfactualsTest, LeavesOutWhoIsNeverEnded) {
  executor_.Connect();
  scheduler::CreateQueue create;
  create.call = harness_.next_call();
  create.queue_id = create.uid = "steady";
  create.queue.set_allow_non_preemptible(true);
  executor_.Take(harness_.Apply(create));
  JobSpec never = Spec(8, 0, "steady");
  never.set_preemption(JobSpec::PREEMPTION_NEVER);
  RunJob("never", never);
  AdvanceHeard(absl::Minutes(6));
  Submit("high", Spec(1, 10));
  EXPECT_THAT(Explain("high", Counterfactual::KIND_PREEMPTS), IsEmpty());
  EXPECT_EQ(Explain("high", Counterfactual::KIND_FREES).size(), 1u);
}

TEST_F(CounterfactualsTest, SaysWhoMakesRoomAndWhyEachHasTo) {
  executor_.Connect();
  RunJob("own", Spec(4, 0));
  RunElsewhere("foreign", Spec(3, 0));
  AdvanceHeard(absl::Minutes(6));
  EXPECT_EQ(Explain("own").victim_count(), 0);
  executor_.set_slow_to_stop();
  Submit("high", Spec(6, 5));
  ASSERT_EQ(ReasonOf("high"), "MAKING_ROOM");
  const ExplainJobResponse why = Explain("high");
  EXPECT_EQ(why.victim_count(), 2);
  ASSERT_EQ(why.victims_size(), 1);
  EXPECT_EQ(why.victims(0).job(), "projects/p/jobs/own");
  EXPECT_EQ(why.victims(0).act(), ExplainJobResponse::Victim::ACT_ENDS);
  EXPECT_EQ(why.victims(0).need(), ExplainJobResponse::Victim::NEED_ROOM);
  EXPECT_EQ(why.victims(0).tasks(), 4);
  EXPECT_EQ(why.victims(0).message(), "ends; otherwise at most 4 of its 6 Tasks would have room");
}

TEST_F(CounterfactualsTest, SaysByHowMuchALimitIsTooLow) {
  executor_.Connect();
  CreateQueue("a", 1000, 1000);
  RunJob("first", Spec(1, 0, "a"));
  Submit("second", Spec(3, 0, "a"));
  ASSERT_EQ(ReasonOf("second"), "QUEUE_LIMIT");
  const ExplainJobResponse why = Explain("second");
  ASSERT_EQ(why.constraints_size(), 1);
  EXPECT_EQ(why.constraints(0).type(), "queue_limit");
  EXPECT_EQ(why.constraints(0).level(), Constraint::LEVEL_QUOTA);
  EXPECT_EQ(why.constraints(0).queue(), "queues/a");
  EXPECT_EQ(why.constraints(0).resource(), "cpu");
  EXPECT_EQ(why.constraints(0).limit(), 2000);
  EXPECT_EQ(why.constraints(0).in_use(), 1000);
  EXPECT_EQ(why.constraints(0).requested(), 3000);
  EXPECT_EQ(why.constraints(0).message(), harness_.job("second").state.message());
  const auto quota = Explain("second", Counterfactual::KIND_QUOTA);
  ASSERT_EQ(quota.size(), 1u);
  EXPECT_EQ(quota[0].message(),
            "would be tried if queues/a's limit of cpu were 2 more, or that much is given back "
            "there");
  ASSERT_EQ(quota[0].raises_size(), 1);
  EXPECT_EQ(quota[0].raises(0).queue(), "queues/a");
  EXPECT_EQ(quota[0].raises(0).more(), 2000);
  // Just so much more, and not less.
  for (const int64_t borrow : {2999, 3000}) {
    UpdateQueue update;
    update.call = harness_.next_call();
    update.queue_id = "a";
    update.update_mask.add_paths("quotas");
    auto& quota_of_queue = *update.queue.add_quotas();
    quota_of_queue.set_resource("cpu");
    quota_of_queue.set_guarantee(1000);
    quota_of_queue.mutable_borrowing_limit()->set_amount(borrow);
    executor_.Take(harness_.Apply(update));
    Advance(absl::Seconds(1));
    EXPECT_EQ(StateOf("second"), borrow == 3000 ? Job::STATE_PREPARING : Job::STATE_QUEUED);
  }
}

TEST_F(CounterfactualsTest, SaysWhichQueueHoldsItAndWhichRate) {
  executor_.Connect();
  CreateQueue("held", 0, 100'000);
  UpdateQueue update;
  update.call = harness_.next_call();
  update.queue_id = "held";
  update.update_mask.add_paths("hold");
  update.queue.set_hold(true);
  executor_.Take(harness_.Apply(update));
  Submit("a", Spec(1, 0, "held"));
  Advance(absl::Seconds(1));
  ASSERT_EQ(ReasonOf("a"), "QUEUE_HELD");
  ASSERT_EQ(Explain("a").constraints_size(), 1);
  EXPECT_EQ(Explain("a").constraints(0).level(), Constraint::LEVEL_QUEUE);
  EXPECT_EQ(Explain("a").constraints(0).queue(), "queues/held");
  EXPECT_THAT(Explain("a").counterfactuals(), IsEmpty());

  scheduler::CreateQueue create;
  create.call = harness_.next_call();
  create.queue_id = create.uid = "slow";
  create.queue.mutable_start_rate()->set_count(1);
  *create.queue.mutable_start_rate()->mutable_period() = ToProto(absl::Hours(1));
  executor_.Take(harness_.Apply(create));
  RunJob("b", Spec(1, 0, "slow"));
  Submit("c", Spec(1, 0, "slow"));
  ASSERT_EQ(ReasonOf("c"), "QUEUE_RATE");
  const ExplainJobResponse why = Explain("c");
  ASSERT_EQ(why.constraints_size(), 1);
  EXPECT_EQ(why.constraints(0).level(), Constraint::LEVEL_RATE);
  EXPECT_EQ(why.constraints(0).queue(), "queues/slow");
  EXPECT_EQ(why.constraints(0).limit(), 1);
  EXPECT_EQ(ToDuration(why.constraints(0).period()), absl::Hours(1));
}

TEST_F(CounterfactualsTest, SaysWhatItComesAfter) {
  executor_.Connect();
  RunJob("first", Spec(1, 0));
  JobSpec spec = Spec(1, 0);
  spec.add_after()->set_job("projects/p/jobs/first");
  spec.mutable_after(0)->set_condition(v1::JobDependency::CONDITION_SUCCEEDED);
  Submit("second", spec);
  const ExplainJobResponse why = Explain("second");
  ASSERT_EQ(why.constraints_size(), 1);
  EXPECT_EQ(why.constraints(0).type(), "jobs");
  EXPECT_EQ(why.constraints(0).level(), Constraint::LEVEL_DEPENDENCY);
}

// Room is kept for the first, and by itself the second would fit when the first one's room is free.
TEST_F(CounterfactualsTest, SaysWhenItStartsAndWhenItWouldByItself) {
  executor_.Connect();
  JobSpec limited = Spec(8, 0);
  *limited.mutable_time_limit() = ToProto(absl::Hours(1));
  RunJob("runs", limited);
  Submit("first", Spec(8, 0));
  Submit("second", Spec(4, 0));
  const auto first = Explain("first", Counterfactual::KIND_BACKFILL);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_FALSE(first[0].alone());
  EXPECT_FALSE(first[0].assumed());
  EXPECT_EQ(ToTime(first[0].time()), ToTime(harness_.job("first").state.estimated_start_time()));
  EXPECT_THAT(first[0].message(), HasSubstr("starts about "));
  EXPECT_THAT(first[0].message(), HasSubstr(", when room kept for it is free"));
  const auto second = Explain("second", Counterfactual::KIND_BACKFILL);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_TRUE(second[0].alone());
  EXPECT_LT(absl::AbsDuration(ToTime(second[0].time()) - ToTime(first[0].time())),
            absl::Seconds(30));
  EXPECT_THAT(second[0].message(), HasSubstr("not counting Jobs ahead of it"));
}

// What is said to end now is what the next round ends.
TEST_F(CounterfactualsTest, WhoWouldEndIsWhoTheNextRoundEnds) {
  int compared = 0;
  CoreConfig config = Config();
  config.min_runtime = absl::Seconds(40);
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto below = [&random](uint64_t bound) { return static_cast<int>(random.Below(bound)); };
    CoreHarness harness{config};
    FakeExecutor executor("local", 3, 4000, &harness);
    executor.Connect();
    for (int i = 0; i < 8; ++i) {
      JobSpec spec = Spec(1 + below(3), below(4));
      if (random.OneIn(3)) *spec.mutable_checkpoint_period() = ToProto(absl::Seconds(1 + below(9)));
      if (random.OneIn(4)) {
        spec.mutable_task_groups(0)->set_min_replicas(1);
        spec.mutable_task_groups(0)->set_replicas(1 + below(4));
      }
      const std::string id = absl::StrCat("low", i);
      executor.Take(harness.Submit(id, spec));
      executor.PrepareAll();
      executor.RunAll();
      if (harness.job(id).state.state() == Job::STATE_QUEUED) {
        executor.Take(
            harness.Apply(CancelJob{harness.next_call(), harness.job(id).spec.name(), ""}));
      }
      executor.Renew();
      executor.Take(harness.Advance(absl::Seconds(below(4))));
    }
    executor.Take(harness.Submit("high", Spec(1 + below(6), 2 + below(4))));
    if (harness.job("high").state.state() != Job::STATE_QUEUED) continue;
    // Nobody looks meanwhile.
    executor.Renew();
    harness.Sleep(absl::Seconds(5));
    for (int i = 0; i < 10 && harness.job("high").state.making_room_size() == 0; ++i) {
      const Model& model = harness.core().model();
      NodeUsage usage;
      for (const auto& [id, job] : model.jobs) usage.Update(id, &job);
      const absl::Time now = harness.now().wall;
      std::set<std::string> said;
      const ExplainJobResponse why =
          ExplainWhole(model, usage, harness.job("high"), Standings(model, usage, {}, {}, now),
                       harness.config(), now);
      for (const Counterfactual& one : why.counterfactuals()) {
        if (one.kind() != Counterfactual::KIND_PREEMPTS || one.hindrances_size() > 0) continue;
        said.insert(one.jobs().begin(), one.jobs().end());
      }
      const std::vector<Effect> effects = harness.Apply(Tick());
      std::set<std::string> ended;
      for (const auto& victim : harness.job("high").state.making_room()) {
        ended.insert(harness.job(victim.job_uid()).spec.name());
      }
      EXPECT_EQ(said, ended);
      compared += ended.empty() ? 0 : 1;
      if (!ended.empty()) break;
      executor.Take(effects);
      executor.Renew();
      harness.Sleep(absl::Seconds(5));
    }
  }
  EXPECT_GT(compared, 5);
}

}  // namespace
}  // namespace capstan::scheduler
