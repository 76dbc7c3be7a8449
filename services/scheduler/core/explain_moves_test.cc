// Over many Nodes; what is said of few is in scheduler_core_repartition_words_test.
#include "services/scheduler/core/explain_moves.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/capstan/scheduler/v1/node.pb.h"
#include "services/scheduler/core/bench_fleet.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/gang_state.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::JobSpec;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kNodes = 200;
const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

JobSpec Sliced(int replicas, const std::string& profile) {
  JobSpec spec = bench_fleet::SpecOf(0, 0);
  auto& group = *spec.mutable_task_groups(0);
  group.set_replicas(replicas);
  group.mutable_resources()->clear_accelerators();
  group.mutable_resources()->mutable_mig()->set_model("H100-80GB");
  group.mutable_resources()->mutable_mig()->set_profile(profile);
  return spec;
}

// One GPU in MIG mode on each Node; their names, sorted.
std::vector<std::string> AddNodes(Model* model) {
  std::vector<std::string> names;
  for (int n = 0; n < kNodes; ++n) {
    auto report = bench_fleet::NodeReport(n);
    report.mutable_allocatable()->clear_accelerators();
    report.add_mig_gpus()->set_model("H100-80GB");
    names.push_back(report.node());
    auto& node = model->nodes[{bench_fleet::kCluster, report.node()}];
    *node.mutable_observation() = report;
    node.set_state(capstan::scheduler::v1::Node::STATE_ACTIVE);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A 1g at `start` on the GPU of each.
JobEntry& StartOn(const std::vector<std::string>& nodes, int start, Model* model) {
  const int tasks = static_cast<int>(nodes.size());
  JobEntry& job = bench_fleet::AddQueued(Sliced(tasks, "1g.10gb"), kNow - absl::Hours(1), model);
  BeginGeneration(bench_fleet::kCluster, nodes, {tasks}, &job);
  job.gang->head.set_phase(rec::GangHeadRecord::PHASE_STARTED);
  job.gang->mig.resize(nodes.size());
  for (auto& instance : job.gang->mig) instance.set_start(start);
  for (auto& task : job.gang->tasks) {
    task.set_state(capstan::type::v1::TaskObservation::STATE_RUNNING);
  }
  job.state.set_state(capstan::scheduler::v1::Job::STATE_RUNNING);
  return job;
}

// What is said of moves for a 7g; "" if nothing is.
std::string MovesForWhole(Model* model) {
  const std::string uid(bench_fleet::AddQueued(Sliced(1, "7g.80gb"), kNow, model).uid());
  CoreConfig config;
  config.min_runtime = absl::ZeroDuration();
  NodeUsage usage;
  for (const auto& [other, job] : model->jobs) usage.Update(other, &job);
  const auto standings = Standings(*model, usage, {}, {}, kNow);
  const JobEntry& job = model->jobs.at(uid);
  auto answer = ExplainJob(*model, job, standings, kNow);
  ExplainMoves(*model, usage, job, standings, config, kNow, &answer);
  for (const auto& constraint : answer.constraints()) {
    if (constraint.type() == "mig_repartition") return constraint.message();
  }
  return "";
}

TEST(ExplainMovesTest, FindsWhomToMoveAmongManyNodes) {
  Model model;
  for (const std::string& node : AddNodes(&model)) StartOn({node}, 0, &model);
  EXPECT_THAT(MovesForWhole(&model), HasSubstr("1 Job was moved"));
}

TEST(ExplainMovesTest, LooksAtTheNodesWithMostRoomWhereverTheyAre) {
  Model model;
  const std::vector<std::string> names = AddNodes(&model);
  for (const std::string& node : names) {
    if (node == names[150]) continue;
    for (const int start : {0, 1}) {
      JobEntry& job = StartOn({node}, start, &model);
      job.spec.mutable_spec()->set_preemption(JobSpec::PREEMPTION_NEVER);
    }
  }
  StartOn({names[150]}, 0, &model);
  EXPECT_THAT(MovesForWhole(&model), HasSubstr("1 Job was moved"));
}

TEST(ExplainMovesTest, LeavesGangsAloneThatStandPartlyElsewhere) {
  Model model;
  const std::vector<std::string> names = AddNodes(&model);
  for (int n = 0; n < kNodes / 2; ++n) StartOn({names[n], names[kNodes - 1 - n]}, 0, &model);
  EXPECT_THAT(MovesForWhole(&model), IsEmpty());
}

}  // namespace
}  // namespace capstan::scheduler
