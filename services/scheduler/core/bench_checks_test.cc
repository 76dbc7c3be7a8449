#include "services/scheduler/core/bench_checks.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "services/scheduler/core/bench_fleet.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Queue;
using capstan::scheduler::v1::ResourceQuota;
using capstan::type::v1::DesiredTask;
using capstan::type::v1::DesiredTasks;
using capstan::type::v1::Observations;
using capstan::type::v1::TaskObservation;

constexpr char kGpu[] = "nvidia.com/h100";
constexpr absl::Time kBegun = absl::FromUnixSeconds(1'700'000'000);
const absl::Time kPlaced = kBegun + absl::Minutes(10);

bool Breaks(const absl::Status& status, absl::string_view words) {
  return status.code() == absl::StatusCode::kFailedPrecondition &&
         absl::StrContains(status.message(), words);
}

// Eight Nodes, the first six full; Queues as benchmarks have them.
class BenchChecksTest : public testing::Test {
 protected:
  BenchChecksTest() {
    bench_fleet::AddFull(6, kBegun, &model_);
    for (int n = 0; n < 8; ++n) {
      const auto report = bench_fleet::NodeReport(n);
      *model_.nodes[{bench_fleet::kCluster, report.node()}].mutable_observation() = report;
    }
  }

  JobEntry& Place(JobSpec spec, std::vector<int> on) {
    JobEntry& job = bench_fleet::AddQueued(std::move(spec), kBegun, &model_);
    std::vector<std::string> nodes;
    for (const int node : on) nodes.push_back(bench_fleet::NodeName(node));
    const int size = static_cast<int>(nodes.size());
    BeginGeneration(bench_fleet::kCluster, std::move(nodes), {size}, &job);
    *job.state.mutable_generation_time() = ToProto(kPlaced);
    return job;
  }
  JobSpec Spec(int tasks, int gpus, int queue, int priority = 0) {
    JobSpec spec = bench_fleet::Gang(tasks, gpus, queue);
    spec.set_priority(priority);
    return spec;
  }
  Queue& QueueOf(const std::string& id) { return *model_.queues.at(id).mutable_queue(); }
  ResourceQuota& QuotaOf(const std::string& id, absl::string_view resource) {
    Queue& queue = QueueOf(id);
    for (ResourceQuota& quota : *queue.mutable_quotas()) {
      if (quota.resource() == resource) return quota;
    }
    ResourceQuota& quota = *queue.add_quotas();
    quota.set_resource(std::string(resource));
    return quota;
  }
  std::string ParentOf(const std::string& id) {
    return QueueOf(id).parent().substr(std::string("queues/").size());
  }
  void BoundTo(int64_t amount, const std::string& id) {
    ResourceQuota& quota = QuotaOf(id, kGpu);
    quota.set_guarantee(0);
    quota.mutable_borrowing_limit()->set_amount(amount);
  }
  absl::Status Check() { return CheckPlacements(model_); }

  Model model_;
};

TEST_F(BenchChecksTest, TakesWhatKeepsTheRules) {
  Place(Spec(16, 1, 0), {6, 6, 6, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7});
  bench_fleet::AddTold(Spec(1, 1, 0), kBegun, &model_);
  EXPECT_EQ(Check(), absl::OkStatus());
}

TEST_F(BenchChecksTest, NoNodeGivesMoreThanItHas) {
  JobSpec cores = Spec(1, 0, 0);
  cores.mutable_task_groups(0)->mutable_resources()->set_cpu_millis(120'000);
  JobSpec memory = Spec(1, 0, 0);
  memory.mutable_task_groups(0)->mutable_resources()->set_memory_bytes(int64_t{2040} << 30);
  for (const auto& [resource, spec] : std::vector<std::pair<std::string, JobSpec>>{
           {"cpu", cores}, {"memory", memory}, {kGpu, Spec(1, 1, 0)}}) {
    // What just fits, on a Node that has none of it left; and one more.
    JobEntry& job = Place(spec, {resource == kGpu ? 6 : 5});
    EXPECT_EQ(Check(), absl::OkStatus()) << resource;
    JobSpec more = Spec(1, resource == kGpu ? 8 : 0, 1);
    auto& asked = *more.mutable_task_groups(0)->mutable_resources();
    asked.set_cpu_millis(1);
    asked.set_memory_bytes(1);
    JobEntry& other = Place(std::move(more), {resource == kGpu ? 6 : 5});
    EXPECT_TRUE(Breaks(Check(), resource)) << Check();
    // What has ended takes nothing.
    other.gang->tasks[0].set_state(TaskObservation::STATE_ENDED);
    EXPECT_EQ(Check(), absl::OkStatus()) << resource;
    model_.jobs.Erase(std::string(other.uid()));
    model_.jobs.Erase(std::string(job.uid()));
  }
}

TEST_F(BenchChecksTest, GangsAreWhole) {
  JobEntry& job = Place(Spec(2, 4, 0), {6, 7});
  EXPECT_EQ(Check(), absl::OkStatus());
  job.gang->nodes[1] = "elsewhere";
  EXPECT_TRUE(Breaks(Check(), "no Node")) << Check();
  job.gang->nodes.pop_back();
  EXPECT_TRUE(Breaks(Check(), "1 places for 2 Tasks")) << Check();
  // Nor if all that is kept of it agrees.
  job.gang->tasks.pop_back();
  job.gang->head.set_task_count(1);
  EXPECT_TRUE(Breaks(Check(), "1 places for 2 Tasks")) << Check();
}

TEST_F(BenchChecksTest, GangsAreOfTheNewestGeneration) {
  JobEntry& job = Place(Spec(1, 8, 0), {6});
  job.state.set_generation(2);
  EXPECT_TRUE(Breaks(Check(), "generation 1 of 2")) << Check();
}

TEST_F(BenchChecksTest, NoQueueUsesMoreThanItMay) {
  // With the one that AddFull has put there, 16.
  Place(Spec(1, 8, 0), {6});
  const std::string above = ParentOf("q0");
  for (const std::string& id : {std::string("q0"), above, ParentOf(above)}) {
    Queue& queue = QueueOf(id);
    const Queue before = queue;
    // Of those that AddFull has put there, q8's is below the uppermost, too.
    const int64_t used = id == ParentOf(above) ? 24 : 16;
    BoundTo(used, id);
    const absl::Status exact = Check();
    BoundTo(used - 1, id);
    EXPECT_TRUE(Breaks(Check(), "queue " + id + " uses")) << Check();
    EXPECT_EQ(exact, absl::OkStatus()) << id;
    queue = before;
  }
}

TEST_F(BenchChecksTest, WhatAQueueMayBorrowIsSaidAboveIt) {
  Place(Spec(1, 8, 0), {6});
  ResourceQuota& own = QuotaOf("q0", kGpu);
  own.clear_borrowing_limit();
  own.set_guarantee(8);
  // That of the Queue above counts above the guarantee of this one.
  ResourceQuota& above = QuotaOf(ParentOf("q0"), kGpu);
  above.set_guarantee(100);
  above.mutable_borrowing_limit()->set_amount(8);
  EXPECT_EQ(Check(), absl::OkStatus());
  above.mutable_borrowing_limit()->set_amount(7);
  EXPECT_TRUE(Breaks(Check(), "queue q0 uses 16 of nvidia.com/h100 and may 15")) << Check();
  own.mutable_borrowing_limit()->set_unlimited(true);
  EXPECT_EQ(Check(), absl::OkStatus());
}

TEST_F(BenchChecksTest, NoQueueIsTakenBelowItsGuarantee) {
  const std::string victim = "uid-1";
  JobEntry& claimant = bench_fleet::AddQueued(Spec(1, 8, 49), kBegun, &model_);
  auto& record = *claimant.state.add_making_room();
  record.set_job_uid(victim);
  record.set_generation(1);
  EXPECT_EQ(Check(), absl::OkStatus());
  QuotaOf("q0", kGpu).set_guarantee(1);
  // Nor the one above it, which is guaranteed as much as those below it.
  const std::string above = ParentOf("q0");
  EXPECT_TRUE(Breaks(Check(), "queue " + above + " is left 0")) << Check();
  QuotaOf(above, kGpu).set_guarantee(0);
  EXPECT_TRUE(Breaks(Check(), "queue q0 is left 0")) << Check();
  // For one of its own it may.
  claimant.spec.mutable_spec()->set_queue("queues/q0");
  model_.jobs.Repack(&claimant);
  EXPECT_EQ(Check(), absl::OkStatus());
}

TEST_F(BenchChecksTest, PriorityGoesBeforeInAQueue) {
  Place(Spec(1, 8, 0, 10), {6});
  const auto waiting = [this](JobSpec spec, absl::Time since) {
    const std::string uid(bench_fleet::AddQueued(std::move(spec), since, &model_).uid());
    model_.jobs.Rest();
    const absl::Status status = Check();
    model_.jobs.Erase(uid);
    return status;
  };
  EXPECT_TRUE(Breaks(waiting(Spec(1, 8, 0, 20), kBegun), "waits")) << "of higher priority";
  JobSpec named = Spec(1, 8, 0, 20);
  named.mutable_task_groups(0)->add_argv("x");
  (*named.mutable_task_groups(0)->mutable_env())["a"] = "b";
  (*named.mutable_labels())["a"] = "b";
  named.set_service_account("somebody");
  EXPECT_TRUE(Breaks(waiting(named, kBegun), "waits")) << "that runs something else";
  EXPECT_EQ(waiting(Spec(1, 8, 0, 10), kBegun), absl::OkStatus()) << "of the same priority";
  EXPECT_EQ(waiting(Spec(1, 8, 0, 20), kPlaced), absl::OkStatus()) << "submitted later";
  EXPECT_EQ(waiting(Spec(2, 8, 0, 20), kBegun), absl::OkStatus()) << "of another kind";
  EXPECT_EQ(waiting(Spec(1, 8, 1, 20), kBegun), absl::OkStatus()) << "of another Queue";
  JobSpec held = Spec(1, 8, 0, 20);
  JobEntry& job = bench_fleet::AddQueued(held, kBegun, &model_);
  job.state.set_reason(kHeld);
  EXPECT_EQ(Check(), absl::OkStatus()) << "that somebody holds";
}

TEST_F(BenchChecksTest, WhatItCannotJudgeItDoesNotTake) {
  JobSpec spec = Spec(1, 0, 0);
  spec.mutable_task_groups(0)->mutable_resources()->mutable_mig()->set_profile("1g.10gb");
  const std::string uid(Place(std::move(spec), {6}).uid());
  EXPECT_EQ(Check().code(), absl::StatusCode::kUnimplemented);
  model_.jobs.Erase(uid);
  Place(Spec(1, 8, 0), {6}).gang->head.add_group_sizes(1);
  EXPECT_EQ(Check().code(), absl::StatusCode::kUnimplemented);
}

DesiredTasks Told(int64_t generation, int index, DesiredTask::Phase phase) {
  DesiredTasks desired;
  DesiredTask& task = *desired.add_tasks();
  task.mutable_key()->set_job_uid("a");
  task.mutable_key()->set_generation(generation);
  task.mutable_key()->set_index(index);
  task.set_phase(phase);
  return desired;
}

Observations Said(int64_t generation, int index, TaskObservation::State state) {
  Observations observations;
  TaskObservation& task = *observations.add_tasks();
  *task.mutable_key() = Told(generation, index, DesiredTask::PHASE_STOP).tasks(0).key();
  task.set_state(state);
  return observations;
}

TEST(GenerationCheckTest, OneIsHeldAtATime) {
  GenerationCheck check;
  check.Told(Told(1, 0, DesiredTask::PHASE_PREPARE));
  check.Said(Said(1, 1, TaskObservation::STATE_RUNNING));
  check.Told(Told(1, 0, DesiredTask::PHASE_START));
  check.Told(Told(1, 0, DesiredTask::PHASE_STOP));
  check.Said(Said(1, 0, TaskObservation::STATE_ENDED));
  check.Said(Said(1, 1, TaskObservation::STATE_ENDED));
  check.Told(Told(2, 0, DesiredTask::PHASE_PREPARE));
  check.Said(Said(1, 0, TaskObservation::STATE_ENDED));
  EXPECT_EQ(check.status(), absl::OkStatus());
  check.Said(Said(1, 1, TaskObservation::STATE_RUNNING));
  EXPECT_TRUE(Breaks(check.status(), "generation 1 while")) << check.status();
}

TEST(GenerationCheckTest, NotBeforeTheLastTaskOfTheOneBeforeHasEnded) {
  GenerationCheck check;
  check.Told(Told(1, 0, DesiredTask::PHASE_START));
  check.Told(Told(1, 1, DesiredTask::PHASE_START));
  check.Said(Said(1, 1, TaskObservation::STATE_ENDED));
  check.Told(Told(2, 1, DesiredTask::PHASE_STOP));
  EXPECT_EQ(check.status(), absl::OkStatus());
  check.Told(Told(2, 1, DesiredTask::PHASE_PREPARE));
  EXPECT_TRUE(Breaks(check.status(), "generation 2 while")) << check.status();
}

}  // namespace
}  // namespace capstan::scheduler
