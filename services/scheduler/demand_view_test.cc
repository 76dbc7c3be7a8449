#include "services/scheduler/demand_view.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/store/memory_store.h"
#include "libs/store/store.h"
#include "libs/strand/simulated_strand.h"
#include "libs/time/proto_time.h"
#include "libs/time/simulated_clock.h"
#include "services/scheduler/committed_view.h"
#include "services/scheduler/core/demand.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;

class DemandViewTest : public ::testing::Test, public DemandView::Listener {
 protected:
  DemandViewTest() : logger_("scheduler", &clock_, &sink_), metrics_("scheduler") { Open(); }
  ~DemandViewTest() override { demand_.reset(); }

  void DemandChanged() override { ++changes_; }
  void Closing() override { closed_ = true; }

  void Open() {
    demand_.reset();
    view_ = std::make_unique<CommittedView>(&store_, &strand_, &logger_);
    demand_ = std::make_unique<DemandView>(DemandConfig(), view_.get(), &strand_, &metrics_);
    demand_->AddListener(this);
    view_->Start();
    strand_.RunReady();
  }

  // Stores the Job as waiting for `reason`, or whatever it is in `state`.
  void Store(const std::string& uid, const std::string& reason,
             Job::State state = Job::STATE_QUEUED) {
    JobEntry job;
    job.spec.set_uid(uid);
    job.spec.set_name(absl::StrCat("projects/p/jobs/", uid));
    job.spec.mutable_spec()->set_queue("queues/default");
    auto& group = *job.spec.mutable_spec()->add_task_groups();
    group.set_name("w");
    group.set_replicas(2);
    group.mutable_resources()->set_cpu_millis(1000);
    job.state.set_state(state);
    job.state.set_reason(reason);
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
  int64_t GangsTold() const {
    int64_t gangs = 0;
    const auto told = demand_->Told("");
    for (const auto& of : told.classes()) gangs += of.gangs();
    return gangs;
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
  int changes_ = 0;
  bool closed_ = false;
};

TEST_F(DemandViewTest, FollowsWhatIsStoredAndTellsInTime) {
  Store("a", "INSUFFICIENT_RESOURCES");
  Store("b", "QUEUE_LIMIT");
  strand_.Advance(absl::Seconds(29));
  EXPECT_EQ(changes_, 0);
  EXPECT_TRUE(Exports("held_back_jobs{cause=\"TOO_NEW\"} 1"));
  EXPECT_TRUE(Exports("held_back_jobs{cause=\"QUEUE_LIMIT\"} 1")) << metrics_.RenderText();
  strand_.Advance(absl::Seconds(1));
  EXPECT_EQ(changes_, 1);
  EXPECT_EQ(GangsTold(), 1);
  EXPECT_EQ(demand_->Told("").revision(), view_->revision());
  EXPECT_EQ(ToTime(demand_->Told("").observe_time()), clock_.Read().wall);
  EXPECT_TRUE(Exports("unmet_gangs{reason=\"INSUFFICIENT_RESOURCES\"} 1"));
  EXPECT_TRUE(Exports("unmet_tasks{reason=\"INSUFFICIENT_RESOURCES\"} 2"));
  EXPECT_TRUE(Exports("held_back_jobs{cause=\"TOO_NEW\"} 0"));
  // It starts, and the other one leaves for the archive.
  Store("a", "STARTED", Job::STATE_RUNNING);
  JobEntry gone;
  gone.spec.set_uid("b");
  Commit({store::Delete{PutJobSpec(gone).key, ""}, store::Delete{PutJobState(gone).key, ""}});
  strand_.Advance(absl::Seconds(1));
  EXPECT_EQ(changes_, 2);
  EXPECT_EQ(GangsTold(), 0);
  EXPECT_TRUE(Exports("unmet_tasks{reason=\"INSUFFICIENT_RESOURCES\"} 0"));
  EXPECT_TRUE(Exports("held_back_jobs{cause=\"QUEUE_LIMIT\"} 0"));
  strand_.Advance(absl::Seconds(1));
  EXPECT_EQ(strand_.next_timer_time(), BootTime::InfiniteFuture())
      << "nothing is done while nothing changes";
}

TEST_F(DemandViewTest, AHeldQueueNeedsNoNodes) {
  Store("a", "INSUFFICIENT_RESOURCES");
  strand_.Advance(absl::Minutes(1));
  ASSERT_EQ(GangsTold(), 1);
  rec::QueueRecord queue;
  queue.mutable_queue()->set_name("queues/default");
  queue.mutable_queue()->set_hold(true);
  Commit({PutQueue("default", queue)});
  strand_.Advance(absl::Seconds(1));
  EXPECT_EQ(GangsTold(), 0);
  EXPECT_TRUE(Exports("held_back_jobs{cause=\"QUEUE_HELD\"} 1"));
  Open();
  EXPECT_EQ(GangsTold(), 0);
  queue.mutable_queue()->set_hold(false);
  Commit({PutQueue("default", queue)});
  strand_.Advance(absl::Minutes(1));
  EXPECT_EQ(GangsTold(), 1);
}

TEST_F(DemandViewTest, ManyChangesAreToldTogether) {
  strand_.Advance(absl::Hours(1));
  for (int i = 0; i < 40; ++i) {
    Store(absl::StrCat("j", i), "INSUFFICIENT_RESOURCES");
    strand_.Advance(absl::Milliseconds(100));
  }
  strand_.Advance(absl::Minutes(1));
  EXPECT_EQ(GangsTold(), 40);
  EXPECT_LE(changes_, 6) << "once a second";
}

TEST_F(DemandViewTest, AProcessThatBeginsAndAViewReadAnewLoseNothing) {
  Store("a", "INSUFFICIENT_RESOURCES");
  Store("b", "INSUFFICIENT_RESOURCES");
  strand_.Advance(absl::Minutes(1));
  EXPECT_EQ(GangsTold(), 2);
  // A reader who comes before anything else does not get less.
  Open();
  demand_->Refresh();
  EXPECT_EQ(GangsTold(), 2);
  // What changes while the view is blind is seen once it reads anew.
  store_.SetUnreachable(true);
  store_.AbortWatches();
  strand_.RunReady();
  store_.SetUnreachable(false);
  Store("a", "STARTED", Job::STATE_RUNNING);
  strand_.Advance(absl::Seconds(2));
  EXPECT_EQ(GangsTold(), 1);
  view_->CloseListeners();
  EXPECT_TRUE(closed_);
}

}  // namespace
}  // namespace capstan::scheduler
