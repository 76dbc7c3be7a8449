// Batches on threads of their own, as the server has them, while what they are copied from changes.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "libs/log/testing_sink.h"
#include "libs/metrics/registry.h"
#include "libs/store/memory_store.h"
#include "libs/store/store.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/proto_time.h"
#include "libs/time/system_clock.h"
#include "libs/time/system_cpu_clock.h"
#include "services/scheduler/batch_simulations.h"
#include "services/scheduler/committed_view.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/what_if.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::Node;
using capstan::scheduler::v1::SimulatePlacementRequest;
using capstan::scheduler::v1::SimulatePlacementResponse;

constexpr int kJobs = 200;

SimulatePlacementRequest Asked() {
  SimulatePlacementRequest request;
  request.set_parent("projects/p");
  auto& spec = *request.add_jobs();
  auto& group = *spec.add_task_groups();
  group.set_name("w");
  group.set_replicas(1);
  group.mutable_resources()->set_cpu_millis(1000);
  group.mutable_resources()->set_memory_bytes(1 << 20);
  group.add_argv("true");
  // Beside the Jobs that wait.
  spec.add_after()->set_job("projects/p/jobs/ended");
  request.add_node_changes()->set_cordon("clusters/c/nodes/n");
  return WithDefaults(CoreConfig(), request);
}

class Asker final : public BatchSimulations::Asker {
 public:
  void Take(int, absl::StatusOr<SimulatePlacementResponse> response,
            const BatchSimulations::Basis& basis, Strand::Task read) override {
    EXPECT_TRUE(response.ok()) << response.status();
    if (response.ok()) waiting.push_back(response->others().waiting());
    revisions.push_back(basis.revision);
    if (on_answer) on_answer();
    read();
  }
  void Done(const BatchSimulations::Summary&, const BatchSimulations::Basis&) override {
    over.Notify();
  }
  void Failed(const absl::Status& why) override {
    failed = why;
    over.Notify();
  }

  Strand::Task on_answer;
  std::vector<int> waiting;
  std::vector<int64_t> revisions;
  absl::Status failed;
  absl::Notification over;
};

class BatchSimulationsThreadsTest : public ::testing::Test {
 protected:
  BatchSimulationsThreadsTest() : logger_("scheduler", &clock_, &sink_) {
    options_.max_core_percent = 100;
    options_.jobs_per_piece = 10;
    OnStrand([this] {
      view_ = std::make_unique<CommittedView>(&store_, &strand_, &logger_);
      batches_ = std::make_unique<BatchSimulations>(CoreConfig(), options_, view_.get(), &strand_,
                                                    &beside_, &cpu_, &metrics_);
      rec::NodeRecord node;
      node.set_schema_version(1);
      node.set_state(Node::STATE_ACTIVE);
      node.mutable_observation()->set_node("n");
      node.mutable_observation()->mutable_allocatable()->set_cpu_millis(1000);
      node.mutable_observation()->mutable_allocatable()->set_memory_bytes(int64_t{8} << 30);
      rec::ClusterRecord cluster;
      cluster.set_schema_version(1);
      Commit({PutCluster("c", cluster), PutNode({"c", "n"}, node)});
      Submit("ended", Job::STATE_SUCCEEDED);
      for (int i = 0; i < kJobs; ++i) Submit(absl::StrCat("u", i), Job::STATE_QUEUED);
      view_->Start();
    });
    absl::Notification ready;
    OnStrand([&] { view_->WhenAtLeast(revision_, [&ready] { ready.Notify(); }); });
    ready.WaitForNotification();
  }
  ~BatchSimulationsThreadsTest() override {
    OnStrand([this] {
      batches_.reset();
      view_.reset();
    });
    beside_.Stop();
    strand_.Stop();
  }

  template <typename Task>
  void OnStrand(Task task) {
    absl::Notification done;
    strand_.Post([&] {
      task();
      done.Notify();
    });
    done.WaitForNotification();
  }
  // All of this on the strand.
  void Submit(const std::string& uid, Job::State state) {
    JobEntry job;
    job.spec.set_schema_version(1);
    job.spec.set_uid(uid);
    job.spec.set_name(absl::StrCat("projects/p/jobs/", uid));
    job.spec.set_submit_sequence(++submitted_);
    *job.spec.mutable_spec() = Asked().jobs(0);
    job.spec.mutable_spec()->clear_after();
    job.state.set_schema_version(1);
    job.state.set_state(state);
    job.state.set_reason(state == Job::STATE_QUEUED ? "INSUFFICIENT_RESOURCES" : "SUCCEEDED");
    *job.state.mutable_update_time() = ToProto(clock_.Read().wall);
    Commit({PutJobSpec(job), PutJobState(job)});
  }
  void Commit(std::vector<store::Op> ops) {
    store::TxnRequest request;
    request.then = std::move(ops);
    store_.Txn(std::move(request), [this](const absl::StatusOr<store::TxnResult>& result) {
      ASSERT_TRUE(result.ok());
      revision_ = result->revision;
    });
  }

  BatchSimulations::Options options_;
  SystemClock clock_;
  SystemCpuClock cpu_;
  log::TestingSink sink_;
  log::Logger logger_;
  metrics::Registry metrics_{"scheduler"};
  ThreadStrand strand_{"scheduler", &clock_};
  ThreadStrand beside_{"batches", &clock_};
  store::MemoryStore store_{&strand_};
  std::unique_ptr<CommittedView> view_;
  std::unique_ptr<BatchSimulations> batches_;
  int64_t revision_ = 0;
  int submitted_ = 0;
};

TEST_F(BatchSimulationsThreadsTest, AnswersAreOfOneStateWhileItChanges) {
  const auto first = std::make_shared<Asker>();
  const auto second = std::make_shared<Asker>();
  for (const auto& asker : {first, second}) {
    asker->on_answer = [this] {
      for (int i = 0; i < 10; ++i) Submit(absl::StrCat("more-", submitted_), Job::STATE_QUEUED);
    };
  }
  const std::vector<SimulatePlacementRequest> alternatives(12, Asked());
  OnStrand([&] {
    batches_->Simulate({alternatives, "person-ann", false}, first);
    batches_->Simulate({alternatives, "person-bob", false}, second);
  });
  first->over.WaitForNotification();
  second->over.WaitForNotification();
  for (const auto& asker : {first, second}) {
    EXPECT_TRUE(asker->failed.ok()) << asker->failed;
    ASSERT_EQ(asker->waiting.size(), alternatives.size());
    EXPECT_EQ(asker->waiting, std::vector<int>(alternatives.size(), asker->waiting[0]));
    EXPECT_EQ(asker->revisions, std::vector<int64_t>(alternatives.size(), asker->revisions[0]));
  }
  EXPECT_EQ(first->waiting[0], kJobs);
  EXPECT_GT(second->waiting[0], kJobs);
}

TEST_F(BatchSimulationsThreadsTest, MayEndAtAnyTime) {
  const auto called_off = std::make_shared<Asker>();
  const auto open = std::make_shared<Asker>();
  absl::Notification answered;
  open->on_answer = [&answered] {
    if (!answered.HasBeenNotified()) answered.Notify();
  };
  const std::vector<SimulatePlacementRequest> alternatives(40, Asked());
  OnStrand([&] {
    batches_->Simulate({alternatives, "person-ann", false}, called_off);
    batches_->Simulate({alternatives, "person-bob", false}, open);
  });
  OnStrand([&] { batches_->CallOff(called_off.get()); });
  answered.WaitForNotification();
  OnStrand([this] { batches_.reset(); });
  open->over.WaitForNotification();
  EXPECT_TRUE(absl::IsUnavailable(open->failed)) << open->failed;
  EXPECT_FALSE(called_off->over.HasBeenNotified());
}

}  // namespace
}  // namespace capstan::scheduler
