#include "services/scheduler/simulations.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/log/testing_sink.h"
#include "libs/status/error.h"
#include "libs/store/memory_store.h"
#include "libs/store/store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/proto_time.h"
#include "libs/time/simulated_clock.h"
#include "services/scheduler/committed_view.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/what_if.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::Node;
using capstan::scheduler::v1::SimulatePlacementRequest;
using capstan::scheduler::v1::SimulatePlacementResponse;
using JobOutcome = SimulatePlacementResponse::JobOutcome;

constexpr char kAnn[] = "person-ann";

class SimulationsTest : public ::testing::Test {
 protected:
  SimulationsTest() : logger_("scheduler", &clock_, &sink_) {
    options_.worth_preparing = 0;
    options_.jobs_per_piece = 2;
  }
  ~SimulationsTest() override { simulations_.reset(); }

  void Open() {
    view_ = std::make_unique<CommittedView>(&store_, &strand_, &logger_);
    simulations_ =
        std::make_unique<Simulations>(CoreConfig(), options_, view_.get(), &strand_, &beside_);
    rec::ClusterRecord cluster;
    cluster.set_schema_version(1);
    Commit({PutCluster("c", cluster), PutNode({"c", "n"}, NodeOf(4))});
    view_->Start();
    Settle();
  }
  static rec::NodeRecord NodeOf(int cores) {
    rec::NodeRecord node;
    node.set_schema_version(1);
    node.set_state(Node::STATE_ACTIVE);
    node.mutable_observation()->set_node("n");
    node.mutable_observation()->mutable_allocatable()->set_cpu_millis(1000 * cores);
    node.mutable_observation()->mutable_allocatable()->set_memory_bytes(int64_t{8} << 30);
    return node;
  }
  // A Job of one core that waits for room.
  void Submit(const std::string& uid) {
    JobEntry job;
    job.spec.set_schema_version(1);
    job.spec.set_uid(uid);
    job.spec.set_name(absl::StrCat("projects/p/jobs/", uid));
    job.spec.set_submitter(kAnn);
    job.spec.set_submit_sequence(++submitted_);
    *job.spec.mutable_spec() = Asked().jobs(0);
    job.state.set_schema_version(1);
    job.state.set_state(Job::STATE_QUEUED);
    job.state.set_reason("INSUFFICIENT_RESOURCES");
    *job.state.mutable_update_time() = ToProto(clock_.Read().wall);
    Commit({PutJobSpec(job), PutJobState(job)});
  }
  void Commit(std::vector<store::Op> ops) {
    store::TxnRequest request;
    request.then = std::move(ops);
    store_.Txn(std::move(request),
               [](const absl::StatusOr<store::TxnResult>& result) { EXPECT_TRUE(result.ok()); });
    strand_.RunReady();
  }
  // What is to be done at once, on both strands.
  void Settle() {
    for (int i = 0; i < 1000; ++i) {
      strand_.RunReady();
      beside_.RunReady();
    }
  }
  void Advance(absl::Duration by) {
    strand_.Advance(by);
    Settle();
  }

  // One Job of a core.
  static SimulatePlacementRequest Asked() {
    SimulatePlacementRequest request;
    request.set_parent("projects/p");
    auto& group = *request.add_jobs()->add_task_groups();
    group.set_name("w");
    group.set_replicas(1);
    group.mutable_resources()->set_cpu_millis(1000);
    group.mutable_resources()->set_memory_bytes(1 << 20);
    group.add_argv("true");
    return WithDefaults(CoreConfig(), request);
  }
  struct Answer {
    absl::Status status = absl::UnknownError("none yet");
    SimulatePlacementResponse response;
  };
  std::shared_ptr<Answer> Ask(const SimulatePlacementRequest& request = Asked(),
                              const std::string& principal = kAnn) {
    auto answer = std::make_shared<Answer>();
    simulations_->Simulate(request, principal,
                           [answer](absl::StatusOr<SimulatePlacementResponse> response) {
                             EXPECT_TRUE(absl::IsUnknown(answer->status)) << "answered twice";
                             answer->status = response.status();
                             if (response.ok()) answer->response = *std::move(response);
                           });
    return answer;
  }
  // How many of those that wait are counted in an answer.
  int Counted(const std::string& principal = kAnn) {
    const auto answer = Ask(Asked(), principal);
    Settle();
    EXPECT_TRUE(answer->status.ok()) << answer->status;
    EXPECT_EQ(answer->response.jobs_size(), 1);
    return answer->response.others().waiting();
  }
  absl::Duration AgeOf(const Answer& answer) const {
    return clock_.Read().wall - ToTime(answer.response.state_time());
  }

  Simulations::Options options_;
  SimulatedClock clock_;
  log::TestingSink sink_;
  log::Logger logger_;
  SimulatedStrand strand_{&clock_};
  SimulatedStrand beside_{&clock_};
  store::MemoryStore store_{&strand_};
  std::unique_ptr<CommittedView> view_;
  std::unique_ptr<Simulations> simulations_;
  int submitted_ = 0;
};

TEST_F(SimulationsTest, OfASmallStateEachIsOfNow) {
  options_.worth_preparing = 100;
  Open();
  Submit("a");
  Advance(absl::Minutes(1));
  EXPECT_FALSE(simulations_->is_ready());
  EXPECT_EQ(Counted(), 1);
  Submit("b");
  const auto answer = Ask();
  Settle();
  EXPECT_EQ(answer->response.others().waiting(), 2);
  EXPECT_EQ(answer->response.jobs(0).outcome(), JobOutcome::OUTCOME_STARTS);
  EXPECT_EQ(AgeOf(*answer), absl::ZeroDuration());
  EXPECT_EQ(simulations_->found_ready(), 0);
  EXPECT_EQ(strand_.next_timer_time(), BootTime::InfiniteFuture());
}

TEST_F(SimulationsTest, OfALargeStateOneIsReady) {
  Open();
  for (const char* uid : {"a", "b", "c"}) Submit(uid);
  Advance(absl::Seconds(1));
  ASSERT_TRUE(simulations_->is_ready());
  const auto answer = Ask();
  Settle();
  EXPECT_EQ(simulations_->found_ready(), 1);
  EXPECT_EQ(answer->response.others().waiting(), 3);
  EXPECT_EQ(answer->response.jobs(0).outcome(), JobOutcome::OUTCOME_STARTS);
  // The next is made for whoever asks next, and while nothing changes, no other.
  Advance(absl::Seconds(1));
  ASSERT_TRUE(simulations_->is_ready());
  EXPECT_EQ(strand_.next_timer_time(), BootTime::InfiniteFuture());
  Advance(absl::Hours(1));
  EXPECT_EQ(Counted(), 3);
  EXPECT_EQ(simulations_->found_ready(), 2);
}

TEST_F(SimulationsTest, WhatBecomesOfJobsCountsSomeTimeLater) {
  options_.renew_every = absl::Hours(1);
  Open();
  Submit("a");
  Advance(absl::Hours(1));
  ASSERT_TRUE(simulations_->is_ready());
  Submit("b");
  Advance(absl::Seconds(5));
  const auto answer = Ask();
  Settle();
  EXPECT_EQ(answer->response.others().waiting(), 1);
  EXPECT_EQ(AgeOf(*answer), absl::Seconds(5));
  // Not much later: then it waits for a new one.
  Advance(absl::Hours(1));
  ASSERT_TRUE(simulations_->is_ready());
  Submit("c");
  Advance(absl::Seconds(6));
  const int64_t found = simulations_->found_ready();
  EXPECT_EQ(Counted(), 3);
  EXPECT_EQ(simulations_->found_ready(), found);
}

TEST_F(SimulationsTest, WhoChangedSomethingCountsIt) {
  options_.renew_every = absl::Hours(1);
  Open();
  Submit("a");
  Advance(absl::Hours(1));
  ASSERT_TRUE(simulations_->is_ready());
  Submit("b");
  simulations_->ChangedBy(kAnn, view_->revision());
  EXPECT_EQ(Counted(), 2);
  Advance(absl::Hours(1));
  ASSERT_TRUE(simulations_->is_ready());
  Submit("c");
  simulations_->ChangedBy(kAnn, view_->revision());
  EXPECT_EQ(Counted("person-bob"), 2) << "he did not";
}

TEST_F(SimulationsTest, ChangesOfTheFleetCountAtOnce) {
  options_.renew_every = absl::Hours(1);
  Open();
  Submit("a");
  Advance(absl::Hours(1));
  ASSERT_TRUE(simulations_->is_ready());
  rec::NodeRecord node = NodeOf(4);
  node.add_cordons()->set_owner("person-bob");
  Commit({PutNode({"c", "n"}, node)});
  const auto answer = Ask();
  Settle();
  EXPECT_EQ(answer->response.jobs(0).outcome(), JobOutcome::OUTCOME_WAITS);
  Advance(absl::Hours(1));
  ASSERT_TRUE(simulations_->is_ready());
  rec::QueueRecord queue;
  queue.mutable_queue()->set_name("queues/default");
  queue.mutable_queue()->set_hold(true);
  Commit({PutQueue("default", queue)});
  const auto held = Ask();
  Settle();
  EXPECT_EQ(held->response.jobs(0).reason(), "QUEUE_HELD");
}

TEST_F(SimulationsTest, AWindowOfMaintenanceCountsAtOnce) {
  options_.renew_every = absl::Hours(1);
  Open();
  Submit("a");
  Advance(absl::Hours(1));
  ASSERT_TRUE(simulations_->is_ready());
  rec::MaintenanceWindowRecord window;
  window.set_schema_version(1);
  auto& given = *window.mutable_window();
  given.set_name("clusters/c/maintenanceWindows/w");
  given.set_all_nodes(true);
  *given.mutable_start_time() = ToProto(clock_.Read().wall - absl::Minutes(1));
  *given.mutable_end_time() = ToProto(clock_.Read().wall + absl::Hours(1));
  Commit({PutMaintenanceWindow({"c", "w"}, window)});
  const auto answer = Ask();
  Settle();
  EXPECT_NE(answer->response.jobs(0).outcome(), JobOutcome::OUTCOME_STARTS);
}

TEST_F(SimulationsTest, WhatComesAfterOthersIsOfNow) {
  Open();
  Submit("a");
  Advance(absl::Seconds(1));
  ASSERT_TRUE(simulations_->is_ready());
  SimulatePlacementRequest request = Asked();
  request.mutable_jobs(0)->add_after()->set_job("projects/p/jobs/a");
  const auto answer = Ask(request);
  Settle();
  EXPECT_EQ(answer->response.jobs(0).reason(), "DEPENDENCY") << answer->status;
  EXPECT_TRUE(simulations_->is_ready());
}

TEST_F(SimulationsTest, EachOfThoseThatComeTogetherIsAnswered) {
  Open();
  Submit("a");
  Advance(absl::Seconds(1));
  std::vector<std::shared_ptr<Answer>> answers;
  for (int i = 0; i < 5; ++i) answers.push_back(Ask());
  EXPECT_EQ(status::Reason(answers[4]->status), "TOO_MANY_SIMULATIONS");
  Settle();
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(answers[i]->status.ok()) << answers[i]->status;
    EXPECT_EQ(answers[i]->response.others().waiting(), 1);
  }
  EXPECT_EQ(Counted(), 1) << "they are over";
}

TEST_F(SimulationsTest, ThoseThatWaitAreToldThatItStops) {
  Open();
  Submit("a");
  simulations_->ChangedBy(kAnn, view_->revision());
  const auto waiting = Ask();
  const auto other = Ask();
  simulations_.reset();
  EXPECT_TRUE(absl::IsUnavailable(waiting->status)) << waiting->status;
  EXPECT_TRUE(absl::IsUnavailable(other->status)) << other->status;
  Settle();
}

}  // namespace
}  // namespace capstan::scheduler
