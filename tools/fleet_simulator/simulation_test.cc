#include "tools/fleet_simulator/simulation.h"

#include "gtest/gtest.h"
#include "tools/fleet_simulator/generator.h"

namespace capstan::fleet_simulator {
namespace {

Workload Empty(int nodes) {
  Workload workload;
  workload.fleet.nodes = nodes;
  workload.queues = {{"a", 100, 0}, {"b", 100, 0}};
  return workload;
}

// Submission and run time in minutes.
WorkloadJob Job(int64_t submitted, int tasks, int gpus, int64_t runtime) {
  WorkloadJob job;
  job.submitted = absl::Minutes(submitted);
  job.tasks = tasks;
  job.gpus_per_task = gpus;
  job.runtime = absl::Minutes(runtime);
  job.declared = job.runtime;
  return job;
}

Outcome Simulated(const Workload& workload, const Policy& policy) {
  SimulationOptions options;
  options.policy = policy;
  options.check_rounds = true;
  const auto outcome = Simulate(workload, options);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  return outcome.ok() ? *outcome : Outcome();
}

Policy Only(bool backfill, bool preemption, bool reclaim) {
  return {"test", backfill, preemption, reclaim, true};
}

TEST(SimulationTest, JobsRunOneAfterAnotherWhereOnlyOneFits) {
  Workload workload = Empty(1);
  workload.jobs = {Job(0, 1, 8, 60), Job(0, 1, 8, 60), Job(0, 1, 8, 60)};
  const Outcome outcome = Simulated(workload, Only(true, true, true));
  EXPECT_EQ(outcome.waits.jobs, 3);
  EXPECT_LT(outcome.waits.p50, absl::Minutes(63));
  EXPECT_GE(outcome.waits.p50, absl::Minutes(60));
  EXPECT_GE(outcome.makespan, absl::Hours(3));
  EXPECT_LT(outcome.makespan, absl::Hours(3) + absl::Minutes(6));
  EXPECT_EQ(outcome.preemptions, 0);
}

TEST(SimulationTest, AJobThatNoFleetOfTheSizeCanRunIsLeftOut) {
  Workload workload = Empty(2);
  // Five tasks of five GPUs: two fit.
  workload.jobs = {Job(0, 5, 5, 10), Job(0, 1, 1, 10)};
  const Outcome outcome = Simulated(workload, Only(true, true, true));
  EXPECT_EQ(outcome.impossible_jobs, 1);
  EXPECT_EQ(outcome.waits.jobs, 1);
}

// A gang of all nodes, in front of a stream of small Jobs that outlives it.
TEST(SimulationTest, AReservationKeepsAStreamOfSmallJobsFromStarvingALargeGang) {
  Workload workload = Empty(4);
  for (int minute = 0; minute < 24 * 60; minute += 5) {
    workload.jobs.push_back(Job(minute, 1, 8, 30));
    if (minute == 60) workload.jobs.push_back(Job(minute, 4, 8, 30));
  }
  const auto wait_of_gang = [&](bool backfill) {
    return Simulated(workload, Only(backfill, false, false)).by_size.at("9-63").p50;
  };
  EXPECT_LT(wait_of_gang(true), absl::Hours(2));
  EXPECT_GT(wait_of_gang(false), absl::Hours(20));
}

TEST(SimulationTest, AnUrgentJobTakesThePlaceOfAnotherWhichLosesWhatNoCheckpointKept) {
  Workload workload = Empty(1);
  workload.jobs = {Job(0, 1, 8, 600), Job(100, 1, 8, 60)};
  workload.jobs[0].checkpoint_period = absl::Minutes(30);
  workload.jobs[1].priority = 10;
  const Outcome outcome = Simulated(workload, Only(true, true, true));
  EXPECT_EQ(outcome.preemptions, 1);
  // Of some 100 minutes on 8 GPUs, three checkpoints keep 90.
  EXPECT_GT(outcome.lost_gpu_hours, 8 * 8.0 / 60);
  EXPECT_LT(outcome.lost_gpu_hours, 8 * 15.0 / 60);
  EXPECT_LT(outcome.makespan, absl::Minutes(600 + 60 + 20));
  EXPECT_EQ(Simulated(workload, Only(true, false, true)).preemptions, 0);
}

// The one that came first is named where all are as dear.
TEST(SimulationTest, WithPreemptionCostItIsTheOneThatSavedLastWhoGoes) {
  Workload workload = Empty(2);
  workload.jobs = {Job(0, 1, 8, 600), Job(0, 1, 8, 600), Job(100, 1, 8, 60)};
  workload.jobs[1].checkpoint_period = absl::Minutes(10);
  workload.jobs[2].priority = 10;
  Policy policy = Only(true, true, true);
  const Outcome weighed = Simulated(workload, policy);
  EXPECT_EQ(weighed.preemptions, 1);
  EXPECT_LT(weighed.lost_gpu_hours, 8 * 10.0 / 60);
  policy.preemption_cost = false;
  const Outcome unweighed = Simulated(workload, policy);
  EXPECT_EQ(unweighed.preemptions, 1);
  EXPECT_GT(unweighed.lost_gpu_hours, 8 * 90.0 / 60);
}

TEST(SimulationTest, AGuaranteeIsTakenBackFromWhoBorrowed) {
  Workload workload = Empty(2);
  workload.queues = {{"a", 100, 8}, {"b", 100, 8}};
  workload.jobs = {Job(0, 1, 8, 600), Job(0, 1, 8, 600), Job(60, 1, 8, 60)};
  workload.jobs[2].queue = 1;
  EXPECT_EQ(Simulated(workload, Only(true, true, true)).preemptions, 1);
  EXPECT_LT(Simulated(workload, Only(true, true, true)).by_queue.at("b").p50, absl::Minutes(3));
  EXPECT_GT(Simulated(workload, Only(true, true, false)).by_queue.at("b").p50, absl::Hours(8));
}

// Every round by the engine's own judge; and everything again, to the last figure.
TEST(SimulationTest, GeneratedWorkloadsEndAndAreTheSameEachTime) {
  GeneratorOptions options;
  options.fleet.nodes = 8;
  options.fleet.nodes_per_rack = 4;
  options.span = absl::Hours(24);
  for (options.seed = 1; options.seed <= 3; ++options.seed) {
    const Workload workload = Generate(options);
    for (const Policy& policy : Policies()) {
      const Outcome outcome = Simulated(workload, policy);
      EXPECT_EQ(outcome.waits.jobs, static_cast<int64_t>(workload.jobs.size()));
      EXPECT_GT(outcome.utilisation, 0.2);
      EXPECT_LE(outcome.utilisation, 1);
      EXPECT_LE(outcome.goodput, outcome.utilisation);
      const Outcome again = Simulated(workload, policy);
      for (const Measure& measure : Measures()) {
        EXPECT_EQ(measure.of(outcome), measure.of(again)) << measure.name;
      }
    }
  }
}

}  // namespace
}  // namespace capstan::fleet_simulator
