// A Job that does not fit: it is explained, arms no timer, and starts with the event that makes
// room.
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "integration/simulation/fleet.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::simulation {
namespace {

using capstan::scheduler::v1::ExplainJobResponse;
using capstan::scheduler::v1::Job;
using capstan::type::v1::DesiredTask;
using capstan::type::v1::TaskObservation;
using ::testing::StartsWith;

// What `capstan job explain` is answered from a state.
ExplainJobResponse Explain(const scheduler::Model& model, const std::string& uid) {
  scheduler::NodeUsage usage;
  for (const auto& [id, job] : model.jobs) usage.Update(id, &job);
  return scheduler::ExplainJob(model, model.jobs.at(uid),
                               scheduler::Standings(model, usage, {}, {}, absl::UnixEpoch()),
                               absl::UnixEpoch());
}

// One Cluster of three Nodes of 4 CPUs each, the last of which joins only when told to. The leading
// scheduler's core is watched at each step, and compared with a second core that gets the same
// events at the same times, but never hears of the Job that waits.
class WaitingTest : public ::testing::Test {
 protected:
  void Begin(int64_t program_steps) {
    FleetConfig config;
    config.seed = 11;
    config.clusters = 1;
    config.nodes_per_cluster = 3;
    config.program.step_time = absl::Seconds(10);
    config.program.steps = program_steps;
    config.program.failure_one_in = 0;
    config.program.port_taken_one_in = 0;
    fleet_ = std::make_unique<Fleet>(config);
    for (const auto& scheduler : fleet_->schedulers()) {
      scheduler->SetObserver(
          [this](const SchedulerActor& who, const scheduler::Event& event, Now now,
                 const scheduler::Step& step) { Watch(*who.core(), event, now, step); });
    }
    fleet_->Start();
    fleet_->agents()[2]->Crash();
    RunFor(absl::Seconds(10));
  }

  void RunFor(absl::Duration d) {
    const absl::Duration until = fleet_->world().now() + d;
    while (fleet_->world().now() < until && fleet_->world().Step()) {
    }
    EXPECT_EQ(fleet_->world().violation(), "");
  }
  void RunUntil(const std::function<bool()>& reached, absl::Duration limit) {
    const absl::Duration until = fleet_->world().now() + limit;
    while (!reached() && fleet_->world().now() < until && fleet_->world().Step()) {
    }
    EXPECT_EQ(fleet_->world().violation(), "");
    EXPECT_TRUE(reached());
  }

  // A Job that runs and takes `replicas` CPUs; returns its name.
  std::string Hold(int32_t replicas) {
    const auto job = fleet_->MakeJob(replicas, absl::ZeroDuration());
    holder_ = job->uid;
    std::string name;
    fleet_->Submit(job, [&name](const Job& made) { name = made.name(); });
    const size_t live = fleet_->witness().live() + replicas;
    RunUntil([&] { return fleet_->witness().live() == live; }, absl::Minutes(1));
    return name;
  }
  // The Job that waits.
  void Wait(int32_t replicas) {
    const auto job = fleet_->MakeJob(replicas, absl::ZeroDuration());
    waiting_ = job->uid;
    fleet_->Submit(job);
    RunUntil([this] { return fleet_->witness().jobs().count(waiting_) == 1; }, absl::Seconds(30));
    submitted_at_ = fleet_->world().now();
  }
  // It does wait, runs all at once when placed, and is told to the user.
  void ExpectStarts(int replicas) {
    RunUntil([this] { return placed_; }, absl::Minutes(10));
    const absl::Duration placed_at = fleet_->world().now();
    RunUntil([&] { return Starts() == replicas; }, absl::Seconds(30));
    std::cout << "waited " << absl::FormatDuration(placed_at - submitted_at_) << ": "
              << steps_waiting_ << " steps, " << ticks_waiting_ << " of them Ticks, deadlines as "
              << "without the Job in " << same_deadlines_
              << "; placed by the event that made room; "
              << "ran after " << absl::FormatDuration(fleet_->world().now() - placed_at)
              << std::endl;
    EXPECT_EQ(same_deadlines_, steps_waiting_);
  }
  int Starts() const {
    int starts = 0;
    for (const auto& life : fleet_->witness().lives()) starts += life.id.job_uid == waiting_;
    return starts;
  }

  // As the API does, from what is stored.
  ExplainJobResponse ExplainStored() const {
    auto core =
        scheduler::SchedulerCore::Load(scheduler::CoreConfig(), fleet_->store().CoreRecords());
    EXPECT_TRUE(core.ok());
    return Explain((*core)->model(), waiting_);
  }

  static bool EndsTaskOf(const scheduler::Event& event, const std::string& uid) {
    const auto* seen = std::get_if<scheduler::ObservationsReceived>(&event);
    if (seen == nullptr) return false;
    for (const TaskObservation& task : seen->observations.tasks()) {
      if (task.key().job_uid() == uid && task.state() == TaskObservation::STATE_ENDED) return true;
    }
    return false;
  }
  static bool HearsNode(const scheduler::Event& event, const std::string& name) {
    const auto* seen = std::get_if<scheduler::ObservationsReceived>(&event);
    if (seen == nullptr) return false;
    for (const auto& node : seen->observations.nodes()) {
      if (node.node() == name && !node.silent()) return true;
    }
    return false;
  }

  void Watch(const scheduler::SchedulerCore& core, const scheduler::Event& event, Now now,
             const scheduler::Step& step) {
    if (std::holds_alternative<scheduler::LeadershipGained>(event)) {
      ASSERT_EQ(without_, nullptr) << "a second term";
      auto loaded =
          scheduler::SchedulerCore::Load(scheduler::CoreConfig(), fleet_->store().CoreRecords());
      ASSERT_TRUE(loaded.ok());
      without_ = *std::move(loaded);
    }
    const auto* create = std::get_if<scheduler::CreateJob>(&event);
    if (create == nullptr || create->uid != waiting_) without_->Apply(event, now);
    if (waiting_.empty() || placed_) return;
    const scheduler::JobEntry* job = core.model().FindJob(waiting_);
    if (job == nullptr) return;
    if (job->state.state() != Job::STATE_QUEUED) {
      placed_ = true;
      EXPECT_TRUE(frees_room_(event)) << "placed by event " << event.index();
      // Every Task is sent with this very step.
      int prepares = 0;
      for (const scheduler::Effect& effect : step.after) {
        const auto* send = std::get_if<scheduler::SendDown>(&effect);
        if (send == nullptr) continue;
        for (const DesiredTask& task : send->message.desired().tasks()) {
          if (task.key().job_uid() == waiting_ && task.phase() == DesiredTask::PHASE_PREPARE) {
            ++prepares;
          }
        }
      }
      EXPECT_EQ(prepares, scheduler::MaxTaskCount(job->spec.spec()));
      return;
    }
    ++steps_waiting_;
    ticks_waiting_ += std::holds_alternative<scheduler::Tick>(event) ? 1 : 0;
    same_deadlines_ += core.NextDeadline() == without_->NextDeadline() ? 1 : 0;
    // There was no room after any earlier step.
    EXPECT_GT(Explain(core.model(), waiting_).constraints_size(), 0);
  }

  std::unique_ptr<Fleet> fleet_;
  std::unique_ptr<scheduler::SchedulerCore> without_;
  std::string holder_;
  std::string waiting_;
  // Whether an event is what the test expects to make room.
  std::function<bool(const scheduler::Event&)> frees_room_;
  absl::Duration submitted_at_;
  bool placed_ = false;
  int64_t steps_waiting_ = 0;
  int64_t ticks_waiting_ = 0;
  int64_t same_deadlines_ = 0;
};

TEST_F(WaitingTest, ATaskThatEndsMakesRoom) {
  Begin(/*program_steps=*/120);
  Hold(7);
  frees_room_ = [this](const scheduler::Event& event) { return EndsTaskOf(event, holder_); };
  Wait(4);
  RunFor(absl::Minutes(16));

  // Which resource lacks, where, and how much.
  const ExplainJobResponse why = ExplainStored();
  EXPECT_EQ(why.reason(), "INSUFFICIENT_RESOURCES");
  EXPECT_THAT(why.summary(),
              StartsWith("after 1 of 4 Tasks, 2 of 2 nodes lack cpu: a Task asks 1, at most 0 "
                         "free; room is kept for it, and it can start by "));
  EXPECT_TRUE(why.has_estimated_start_time());
  ASSERT_EQ(why.constraints_size(), 1);
  EXPECT_EQ(why.constraints(0).type(), "cpu");
  EXPECT_EQ(why.constraints(0).lacking(), 1000);
  ASSERT_EQ(why.constraints(0).node_fits_size(), 2);
  EXPECT_EQ(why.constraints(0).node_fits(0).node(), "clusters/c0/nodes/c0-n0");
  EXPECT_EQ(why.constraints(0).node_fits(1).node(), "clusters/c0/nodes/c0-n1");
  EXPECT_EQ(why.constraints(0).node_fits(1).lacking(), 1000);

  ExpectStarts(4);
  EXPECT_EQ(ticks_waiting_, 0);
}

TEST_F(WaitingTest, ACancelMakesRoomOnceTheTasksHaveEnded) {
  Begin(/*program_steps=*/1000);
  const std::string name = Hold(8);
  frees_room_ = [this](const scheduler::Event& event) { return EndsTaskOf(event, holder_); };
  Wait(8);
  RunFor(absl::Minutes(12));
  EXPECT_THAT(ExplainStored().summary(),
              StartsWith("2 of 2 nodes lack cpu: a Task asks 1, at most 0 free; room is kept"));
  fleet_->Cancel(name);
  ExpectStarts(8);
  EXPECT_EQ(ticks_waiting_, 0);
}

TEST_F(WaitingTest, AnUncordonMakesRoom) {
  Begin(/*program_steps=*/20);
  const auto tell = [this](const scheduler::Event& call) {
    bool told = false;
    for (const auto& scheduler : fleet_->schedulers()) told = told || scheduler->Tell(call);
    EXPECT_TRUE(told);
  };
  tell(scheduler::CordonNode{0, "c0", "c0-n1", "someone", "to look at it"});
  frees_room_ = [](const scheduler::Event& event) {
    return std::holds_alternative<scheduler::UncordonNode>(event);
  };
  Wait(6);
  RunFor(absl::Minutes(12));
  EXPECT_EQ(ExplainStored().summary(),
            "after 4 of 6 Tasks, 1 of 1 node lacks cpu: a Task asks 1, at most 0 free; "
            "1 of 2 nodes is cordoned");
  tell(scheduler::UncordonNode{0, "c0", "c0-n1", "someone"});
  ExpectStarts(6);
  EXPECT_EQ(ticks_waiting_, 0);
}

TEST_F(WaitingTest, ANewNodeMakesRoom) {
  Begin(/*program_steps=*/20);
  frees_room_ = [](const scheduler::Event& event) { return HearsNode(event, "c0-n2"); };
  Wait(12);
  RunFor(absl::Minutes(12));
  EXPECT_EQ(ExplainStored().summary(),
            "after 8 of 12 Tasks, 2 of 2 nodes lack cpu: a Task asks 1, at most 0 free");
  fleet_->agents()[2]->Start();
  ExpectStarts(12);
  EXPECT_EQ(ticks_waiting_, 0);
}

// What renewals would hide, an hour without them shows: nothing at all is armed.
TEST_F(WaitingTest, NothingIsArmedForItOnceTheExecutorIsGivenUp) {
  Begin(/*program_steps=*/20);
  Wait(12);
  fleet_->executors()[0]->Crash();
  // The leases run out, and the Nodes are given up after the default time: with or without the Job.
  RunFor(absl::Minutes(16));
  const int64_t steps = steps_waiting_;
  for (int i = 0; i < 60; ++i) {
    RunFor(absl::Minutes(1));
    for (const auto& scheduler : fleet_->schedulers()) {
      if (scheduler->core() == nullptr) continue;
      EXPECT_EQ(scheduler->core()->NextDeadline(), absl::nullopt);
      EXPECT_EQ(scheduler->core()->waiting_jobs(), 1u);
    }
  }
  EXPECT_EQ(steps_waiting_, steps) << "something was done within the hour";
  EXPECT_EQ(ExplainStored().summary(), "2 of 2 nodes are silent");
  // Whichever of the three is heard last.
  frees_room_ = [](const scheduler::Event& event) {
    return HearsNode(event, "c0-n0") || HearsNode(event, "c0-n1") || HearsNode(event, "c0-n2");
  };
  fleet_->executors()[0]->Start();
  fleet_->agents()[2]->Start();
  ExpectStarts(12);
}

TEST_F(WaitingTest, NamesEachResourceThatLacksWithTheNearestNodeFirst) {
  Begin(/*program_steps=*/1000);
  // 4 Tasks of 1 GiB on the first Node, one on the second; each has 16 GiB.
  Hold(5);
  const auto job = fleet_->MakeJob(1, absl::ZeroDuration());
  job->spec.mutable_task_groups(0)->mutable_resources()->set_memory_bytes(int64_t{18} << 30);
  waiting_ = job->uid;
  fleet_->Submit(job);
  RunFor(absl::Seconds(30));
  EXPECT_GT(steps_waiting_, 0);
  const ExplainJobResponse why = ExplainStored();
  EXPECT_EQ(why.summary(),
            "2 of 2 nodes lack memory: a Task asks 18Gi, at most 15Gi free; "
            "1 of 2 nodes lacks cpu: a Task asks 1, at most 3 free");
  ASSERT_EQ(why.constraints_size(), 2);
  EXPECT_EQ(why.constraints(0).lacking(), int64_t{3} << 30);
  ASSERT_EQ(why.constraints(0).node_fits_size(), 2);
  EXPECT_EQ(why.constraints(0).node_fits(0).node(), "clusters/c0/nodes/c0-n1");
  EXPECT_EQ(why.constraints(0).node_fits(0).lacking(), int64_t{3} << 30);
  EXPECT_EQ(why.constraints(0).node_fits(1).lacking(), int64_t{6} << 30);
  ASSERT_EQ(why.constraints(1).node_fits_size(), 1);
  EXPECT_EQ(why.constraints(1).node_fits(0).node(), "clusters/c0/nodes/c0-n0");
  EXPECT_EQ(why.constraints(1).node_fits(0).lacking(), 1000);
}

}  // namespace
}  // namespace capstan::simulation
