// That the witness of Queues sees each thing that it is for: what no core would decide.
#include "integration/simulation/queue_witness.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/simulation/world.h"
#include "libs/store/store.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/model.h"

namespace capstan::simulation {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobDependency;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Queue;
using capstan::type::v1::Stop;
using scheduler::JobEntry;
using scheduler::rec::GangHeadRecord;
using ::testing::HasSubstr;

// Queues a (up to 2 CPUs) and b (no limit) below `both` (up to 3 CPUs).
class QueueWitnessTest : public ::testing::Test {
 protected:
  QueueWitnessTest() : world_(1), witness_(&world_, absl::Seconds(30)) {
    MakeQueue("both", "", 1000, 2000);
    MakeQueue("a", "queues/both", 2000, 0);
    MakeQueue("b", "queues/both", 0, -1);
    witness_.Begin("s", builder_.model());
  }

  void MakeQueue(const std::string& id, const std::string& parent, int64_t guarantee,
                 int64_t borrowing) {
    scheduler::rec::QueueRecord record;
    Queue& queue = *record.mutable_queue();
    queue.set_name(absl::StrCat("queues/", id));
    queue.set_parent(parent);
    auto& quota = *queue.add_quotas();
    quota.set_resource("cpu");
    quota.set_guarantee(guarantee);
    if (borrowing >= 0) quota.mutable_borrowing_limit()->set_amount(borrowing);
    Apply({scheduler::PutQueue(id, record)});
    witness_.QueueAcknowledged(queue);
  }
  void Hold(const std::string& id) {
    scheduler::rec::QueueRecord record = builder_.model().queues.at(id);
    record.mutable_queue()->set_hold(true);
    Apply({scheduler::PutQueue(id, record)});
  }
  void Apply(const std::vector<store::Put>& puts) {
    for (const store::Put& put : puts) {
      ASSERT_TRUE(builder_.Apply(put.key, absl::string_view(put.value)).ok());
    }
    ASSERT_TRUE(builder_.Resolve().ok());
  }

  // Of so many Tasks with a CPU each.
  static JobEntry Make(const std::string& uid, const std::string& queue, int tasks) {
    JobEntry job;
    job.spec.set_name(absl::StrCat("projects/p/jobs/", uid));
    job.spec.set_uid(uid);
    auto& spec = *job.spec.mutable_spec();
    spec.set_queue(absl::StrCat("queues/", queue));
    auto& group = *spec.add_task_groups();
    group.set_name("w");
    group.set_replicas(tasks);
    group.mutable_resources()->set_cpu_millis(1000);
    job.state.set_state(Job::STATE_QUEUED);
    return job;
  }
  static void Place(JobEntry* job) {
    const int tasks = job->spec.spec().task_groups(0).replicas();
    scheduler::BeginGeneration("c", std::vector<std::string>(static_cast<size_t>(tasks), "n"),
                               {tasks}, job);
    job->state.set_state(Job::STATE_PREPARING);
  }
  void See(const JobEntry& job) {
    std::vector<store::Put> puts = {PutJobSpec(job), PutJobState(job)};
    if (job.gang.has_value()) {
      puts.push_back(PutGangHead(job));
      for (store::Put& put : PutPlacements(job)) puts.push_back(std::move(put));
      puts.push_back(PutTaskChunk(job, 0));
    }
    Apply(puts);
    witness_.SawStep("s", builder_.model(), {job.uid()});
  }
  // Sees it placed.
  void SeePlaced(JobEntry job) {
    Place(&job);
    See(job);
    witness_.Placed("s", builder_.model(), *builder_.model().FindJob(job.uid()));
  }

  // Sees it begun, then so much later ended for another one.
  void SeeEndedAfter(absl::Duration ran, JobEntry job) {
    Place(&job);
    job.gang->head.set_phase(GangHeadRecord::PHASE_STARTED);
    See(job);
    world_.After(ran, [] {});
    world_.Step();
    job.gang->head.set_phase(GangHeadRecord::PHASE_STOPPING);
    job.gang->head.set_stop_reason(Stop::REASON_PREEMPTED);
    See(job);
  }
  // Of so many CPUs, in all.
  void MakeNodes(int cpus) {
    scheduler::rec::NodeRecord node;
    node.mutable_observation()->mutable_allocatable()->set_cpu_millis(cpus * 1000);
    Apply({scheduler::PutNode({"c", "n"}, node)});
  }

  World world_;
  QueueWitness witness_;
  scheduler::ModelBuilder builder_;
};

TEST_F(QueueWitnessTest, LetsQueuesHaveWhatTheyMay) {
  SeePlaced(Make("x", "a", 2));
  SeePlaced(Make("y", "b", 1));
  EXPECT_EQ(world_.violation(), "");
  EXPECT_EQ(witness_.placed_below_limits(), 2);
}

TEST_F(QueueWitnessTest, SeesAQueueAboveItsLimit) {
  SeePlaced(Make("x", "a", 2));
  SeePlaced(Make("y", "a", 1));
  EXPECT_THAT(world_.violation(), HasSubstr("queues/a has 3000 mCPU, and may have 2000"));
}

TEST_F(QueueWitnessTest, SeesAQueueAboveItsLimitByThoseBelowIt) {
  SeePlaced(Make("x", "a", 2));
  SeePlaced(Make("y", "b", 2));
  EXPECT_THAT(world_.violation(), HasSubstr("queues/both has 4000 mCPU, and may have 3000"));
}

TEST_F(QueueWitnessTest, SeesWhatANewLeaderFinds) {
  JobEntry x = Make("x", "a", 3);
  Place(&x);
  Apply(
      {PutJobSpec(x), PutJobState(x), PutGangHead(x), PutPlacements(x).at(0), PutTaskChunk(x, 0)});
  witness_.Begin("other", builder_.model());
  EXPECT_THAT(world_.violation(), HasSubstr("queues/a has 3000 mCPU"));
}

TEST_F(QueueWitnessTest, CountsNothingThatIsEndedForAnother) {
  JobEntry x = Make("x", "a", 2);
  Place(&x);
  x.gang->head.set_phase(GangHeadRecord::PHASE_STOPPING);
  x.gang->head.set_stop_reason(Stop::REASON_PREEMPTED);
  See(x);
  SeePlaced(Make("y", "a", 2));
  EXPECT_EQ(world_.violation(), "");
  x.gang->head.set_stop_reason(Stop::REASON_CANCELLED);
  See(x);
  EXPECT_THAT(world_.violation(), HasSubstr("queues/a has 4000 mCPU"));
}

TEST_F(QueueWitnessTest, SeesAStartInAHeldQueue) {
  Hold("both");
  SeePlaced(Make("x", "b", 1));
  EXPECT_THAT(world_.violation(), HasSubstr("job x is placed, and queues/both is held"));
}

TEST_F(QueueWitnessTest, SeesAStartOfAHeldJob) {
  JobEntry job = Make("x", "b", 1);
  job.state.set_hold(true);
  SeePlaced(job);
  EXPECT_THAT(world_.violation(), HasSubstr("job x is placed, and is held"));
}

TEST_F(QueueWitnessTest, SeesAJobThatDoesNotWait) {
  JobEntry first = Make("first", "b", 1);
  See(first);
  JobEntry second = Make("second", "b", 1);
  JobDependency& after = *second.spec.mutable_spec()->add_after();
  after.set_job("projects/p/jobs/first");
  first.state.set_state(Job::STATE_FAILED);
  See(first);
  after.set_condition(JobDependency::CONDITION_NOT_SUCCEEDED);
  SeePlaced(second);
  after.set_condition(JobDependency::CONDITION_ENDED);
  SeePlaced(second);
  EXPECT_EQ(world_.violation(), "");
  EXPECT_EQ(witness_.placed_after_others(), 2);
  after.set_condition(JobDependency::CONDITION_SUCCEEDED);
  SeePlaced(second);
  EXPECT_THAT(world_.violation(),
              HasSubstr("second is placed before projects/p/jobs/first has ended as asked"));
}

TEST_F(QueueWitnessTest, SeesAJobThatIsEndedForAnotherTooSoon) {
  SeeEndedAfter(absl::Seconds(29.98), Make("long", "b", 1));
  EXPECT_EQ(world_.violation(), "");
  EXPECT_EQ(witness_.ended_for_others(), 1);
  scheduler::rec::QueueRecord both = builder_.model().queues.at("both");
  both.mutable_queue()->mutable_min_runtime()->set_seconds(20);
  Apply({scheduler::PutQueue("both", both)});
  SeeEndedAfter(absl::Seconds(20), Make("longer", "b", 1));
  EXPECT_EQ(world_.violation(), "");
  SeeEndedAfter(absl::Seconds(19), Make("short", "b", 1));
  EXPECT_THAT(world_.violation(),
              HasSubstr("job short is ended for another after 19s, and may run for 20s"));
}

TEST_F(QueueWitnessTest, SeesAJobEndedForAnotherThatMayNotBe) {
  JobEntry job = Make("x", "b", 1);
  job.spec.mutable_spec()->set_preemption(JobSpec::PREEMPTION_NEVER);
  SeePlaced(job);
  EXPECT_EQ(witness_.placed_for_good(), 1);
  SeeEndedAfter(absl::Minutes(10), job);
  EXPECT_THAT(world_.violation(), HasSubstr("job x may not be ended for another, and is"));
}

TEST_F(QueueWitnessTest, SeesWhatAQueueKeepsTakenByAnother) {
  MakeNodes(4);
  Queue queue;
  queue.set_name("queues/keeps");
  auto& quota = *queue.add_quotas();
  quota.set_resource("cpu");
  quota.set_guarantee(3000);
  quota.mutable_lending_limit()->set_amount(2000);
  scheduler::rec::QueueRecord record;
  *record.mutable_queue() = queue;
  Apply({scheduler::PutQueue("keeps", record)});
  witness_.QueueAcknowledged(queue);
  SeePlaced(Make("own", "keeps", 1));
  SeePlaced(Make("x", "b", 2));
  SeePlaced(Make("y", "b", 1));
  EXPECT_EQ(world_.violation(), "");
  EXPECT_EQ(witness_.placed_beside_lenders(), 2);
  // What is drained keeps nothing.
  record.mutable_queue()->set_drain(true);
  Apply({scheduler::PutQueue("keeps", record)});
  SeePlaced(Make("z", "default", 1));
  EXPECT_EQ(world_.violation(), "");
  record.mutable_queue()->set_drain(false);
  Apply({scheduler::PutQueue("keeps", record)});
  SeePlaced(Make("w", "default", 1));
  EXPECT_THAT(world_.violation(), HasSubstr("the Queues beside queues/keeps have 5000 mCPU"));
}

TEST_F(QueueWitnessTest, SeesTwoJobsOfOneRequest) {
  for (const char* uid : {"x", "element", "y"}) {
    JobEntry job = Make(uid, "b", 1);
    (*job.spec.mutable_spec()->mutable_labels())[QueueWitness::kRequestLabel] = "r";
    if (absl::string_view(uid) == "element") job.spec.mutable_element();
    EXPECT_EQ(world_.violation(), "");
    See(job);
  }
  EXPECT_THAT(world_.violation(), HasSubstr("request r makes two Jobs, x and y"));
}

}  // namespace
}  // namespace capstan::simulation
