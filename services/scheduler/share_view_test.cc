#include "services/scheduler/share_view.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/store/memory_store.h"
#include "libs/store/store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/simulated_clock.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/node.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "services/scheduler/committed_view.h"
#include "services/scheduler/core/demand.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/demand_view.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::Node;
using capstan::scheduler::v1::Queue;

// A Node of 8 cores, and two Queues.
class ShareViewTest : public ::testing::Test {
 protected:
  ShareViewTest() : logger_("scheduler", &clock_, &sink_), metrics_("scheduler") {
    rec::NodeRecord node;
    node.set_state(Node::STATE_ACTIVE);
    node.mutable_observation()->set_node("n");
    node.mutable_observation()->mutable_allocatable()->set_cpu_millis(8000);
    rec::QueueRecord queue;
    queue.mutable_queue()->set_weight(100);
    queue.mutable_queue()->set_name("queues/a");
    const store::Put a = PutQueue("a", queue);
    queue.mutable_queue()->set_name("queues/b");
    Commit({PutNode({"c", "n"}, node), a, PutQueue("b", queue)});
    Open();
  }
  ~ShareViewTest() override {
    shares_.reset();
    demand_.reset();
  }

  void Open() {
    shares_.reset();
    demand_.reset();
    view_ = std::make_unique<CommittedView>(&store_, &strand_, &logger_);
    demand_ = std::make_unique<DemandView>(DemandConfig(), view_.get(), &strand_, &metrics_);
    shares_ = std::make_unique<ShareView>(view_.get(), demand_.get(), &strand_, &metrics_);
    view_->Start();
    strand_.RunReady();
  }
  // Of 2 Tasks of a core.
  void Store(const std::string& uid, const std::string& queue, Job::State state) {
    JobEntry job;
    job.spec.set_uid(uid);
    job.spec.set_name(absl::StrCat("projects/p/jobs/", uid));
    job.spec.mutable_spec()->set_queue(absl::StrCat("queues/", queue));
    auto& group = *job.spec.mutable_spec()->add_task_groups();
    group.set_name("w");
    group.set_replicas(2);
    group.mutable_resources()->set_cpu_millis(1000);
    job.state.set_state(state);
    job.state.set_reason(state == Job::STATE_QUEUED ? "INSUFFICIENT_RESOURCES" : "STARTED");
    std::vector<store::Op> ops = {PutJobSpec(job), PutJobState(job)};
    if (state == Job::STATE_RUNNING) {
      job.state.set_generation(1);
      Gang& gang = job.gang.emplace();
      gang.head.set_generation(1);
      gang.head.set_cluster("c");
      gang.head.set_task_count(2);
      gang.head.set_phase(rec::GangHeadRecord::PHASE_STARTED);
      gang.nodes = {"n", "n"};
      gang.tasks.resize(2);
      ops = {PutJobSpec(job), PutJobState(job), PutGangHead(job), PutTaskChunk(job, 0)};
      for (store::Put& put : PutPlacements(job)) ops.push_back(std::move(put));
    }
    Commit(std::move(ops));
  }
  void Commit(std::vector<store::Op> ops) {
    store::TxnRequest request;
    request.then = std::move(ops);
    store_.Txn(std::move(request),
               [](const absl::StatusOr<store::TxnResult>& result) { EXPECT_TRUE(result.ok()); });
    strand_.RunReady();
  }
  // `cpu=in use/fair share dominant/fair` of it.
  std::string Shown(const std::string& id) {
    Queue queue = view_->model().queues.at(id).queue();
    shares_->Show(&queue);
    std::string shown;
    for (const auto& usage : queue.usage()) {
      absl::StrAppend(&shown, usage.resource(), "=", usage.in_use(), "/", usage.fair_share(), " ");
    }
    return absl::StrCat(shown, queue.dominant_share(), "/", queue.fair_dominant_share());
  }
  bool Exports(const std::string& line) const {
    return absl::StrContains(metrics_.RenderText(), absl::StrCat("capstan_scheduler_", line, "\n"));
  }

  SimulatedClock clock_;
  log::TestingSink sink_;
  log::Logger logger_;
  metrics::Registry metrics_;
  SimulatedStrand strand_{&clock_};
  store::MemoryStore store_{&strand_};
  std::unique_ptr<CommittedView> view_;
  std::unique_ptr<DemandView> demand_;
  std::unique_ptr<ShareView> shares_;
};

TEST_F(ShareViewTest, ShowsWhatIsInUseAtOnceAndSharesWithinSeconds) {
  strand_.Advance(absl::Seconds(5));
  EXPECT_EQ(Shown("a"), "0/0");
  Store("j0", "a", Job::STATE_RUNNING);
  Store("j1", "a", Job::STATE_RUNNING);
  Store("j2", "a", Job::STATE_RUNNING);
  EXPECT_TRUE(absl::StartsWith(Shown("a"), "cpu=6000/")) << Shown("a");
  for (int i = 0; i < 4; ++i) Store(absl::StrCat("w", i), "b", Job::STATE_QUEUED);
  strand_.Advance(ShareView::kPause);
  EXPECT_EQ(Shown("a"), "cpu=6000/4000 0.75/0.5");
  EXPECT_EQ(Shown("b"), "cpu=0/4000 0/0.5");
  EXPECT_TRUE(Exports("fair_share_error_ratio 0.375")) << metrics_.RenderText();
  EXPECT_TRUE(Exports("partial_gangs 0"));
  EXPECT_TRUE(Exports("fragmented_accelerators 0"));
  strand_.Advance(absl::Minutes(1));
  const BootTime next = strand_.next_timer_time();
  strand_.Advance(absl::Minutes(1));
  EXPECT_EQ(strand_.next_timer_time(), next) << "nothing is done while nothing changes";
}

TEST_F(ShareViewTest, AQueueThatIsHeldWantsNothingAndAProcessThatBeginsKnowsAll) {
  Store("j0", "a", Job::STATE_RUNNING);
  for (int i = 0; i < 8; ++i) Store(absl::StrCat("w", i), "b", Job::STATE_QUEUED);
  strand_.Advance(ShareView::kPause);
  EXPECT_EQ(Shown("b"), "cpu=0/6000 0/0.75");
  rec::QueueRecord held = view_->model().queues.at("b");
  held.mutable_queue()->set_hold(true);
  Commit({PutQueue("b", held)});
  strand_.Advance(ShareView::kPause);
  EXPECT_EQ(Shown("b"), "0/0");
  held.mutable_queue()->set_hold(false);
  Commit({PutQueue("b", held)});
  Open();
  strand_.Advance(ShareView::kPause);
  EXPECT_EQ(Shown("a"), "cpu=2000/2000 0.25/0.25");
  EXPECT_EQ(Shown("b"), "cpu=0/6000 0/0.75");
}

// What the record of the past says is in use may be a minute old.
TEST_F(ShareViewTest, SaysBesideWhatWasUsedWhatIs) {
  Store("j0", "a", Job::STATE_RUNNING);
  Queue queue = view_->model().queues.at("a").queue();
  auto& memory = *queue.add_usage();
  memory.set_resource("memory");
  memory.set_average(3.5);
  memory.set_in_use(7);
  auto& cpu = *queue.add_usage();
  cpu.set_resource("cpu");
  cpu.set_average(1.5);
  cpu.set_in_use(7);
  shares_->Show(&queue);
  ASSERT_EQ(queue.usage_size(), 2);
  EXPECT_EQ(queue.usage(0).resource(), "cpu");
  EXPECT_EQ(queue.usage(0).in_use(), 2000);
  EXPECT_EQ(queue.usage(0).average(), 1.5);
  EXPECT_EQ(queue.usage(1).in_use(), 0);
  EXPECT_EQ(queue.usage(1).average(), 3.5);
}

}  // namespace
}  // namespace capstan::scheduler
