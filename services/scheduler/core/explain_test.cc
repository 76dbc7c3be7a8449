#include "services/scheduler/core/explain.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/amount_words.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/model.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::ExplainJobResponse;

class ExplainTest : public ::testing::Test {
 protected:
  ExplainJobResponse Explain(const std::string& uid) {
    const Model& model = harness_.core().model();
    NodeUsage usage;
    for (const auto& [id, job] : model.jobs) usage.Update(id, &job);
    return ExplainJob(model, model.jobs.at(uid),
                      Standings(model, usage, {}, {}, harness_.now().wall), harness_.now().wall);
  }
  void Submit(const std::string& id, capstan::scheduler::v1::JobSpec spec) {
    executor_.Take(harness_.Submit(id, std::move(spec)));
  }

  CoreHarness harness_{CoreConfig()};
  FakeExecutor executor_{"local", 2, 2000, &harness_};
};

TEST_F(ExplainTest, SaysWhichResourceLacksWhereAndHowMuch) {
  executor_.Connect();
  Submit("a", CoreHarness::Spec(1, 500));
  Submit("b", CoreHarness::Spec(1, 4000));
  const ExplainJobResponse response = Explain("b");
  EXPECT_EQ(response.summary(), "2 of 2 nodes lack cpu: a Task asks 4, at most 2 free");
  ASSERT_EQ(response.constraints_size(), 1);
  EXPECT_EQ(response.constraints(0).type(), "cpu");
  EXPECT_EQ(response.constraints(0).nodes(), 2);
  EXPECT_EQ(response.constraints(0).requested(), 4000);
  EXPECT_EQ(response.constraints(0).available(), 2000);
  EXPECT_EQ(response.constraints(0).lacking(), 2000);
  ASSERT_EQ(response.constraints(0).node_fits_size(), 2);
  EXPECT_EQ(response.constraints(0).node_fits(0).node(), "clusters/local/nodes/n1");
  EXPECT_EQ(response.constraints(0).node_fits(1).lacking(), 2500);
}

TEST_F(ExplainTest, CountsTheTasksThatWouldFit) {
  executor_.Connect();
  Submit("b", CoreHarness::Spec(4, 1500));
  EXPECT_EQ(Explain("b").summary(),
            "after 2 of 4 Tasks, 2 of 2 nodes lack cpu: a Task asks 1.5, at most 0.5 free");
}

TEST_F(ExplainTest, SaysWhichLevelAllOfItMustBeIn) {
  executor_.Connect();
  auto spec = CoreHarness::Spec(2, 1500);
  spec.mutable_topology()->set_required(capstan::scheduler::v1::Topology::LEVEL_NODE);
  Submit("b", spec);
  EXPECT_EQ(Explain("b").summary(),
            "all of it must be in one Node: after 1 of 2 Tasks, 1 of 1 node lacks cpu: a Task asks "
            "1.5, at most 0.5 free");
  spec.mutable_topology()->set_required(capstan::scheduler::v1::Topology::LEVEL_RACK);
  Submit("c", spec);
  EXPECT_EQ(Explain("c").summary(), "all of it must be in one rack: 2 of 2 nodes are in no rack");
}

TEST_F(ExplainTest, SaysWhichLevelAllOfAGroupMustBeIn) {
  executor_.set_labels(0, {{"capstan.dev/rack", "r0"}});
  executor_.Connect();
  auto spec = CoreHarness::Spec(1, 1000);
  *spec.add_task_groups() = CoreHarness::Spec(2, 900).task_groups(0);
  auto& server = *spec.mutable_task_groups(1);
  server.set_name("server");
  server.mutable_topology()->set_required(capstan::scheduler::v1::Topology::LEVEL_NODE);
  server.set_replicas(3);
  Submit("a", spec);
  EXPECT_EQ(Explain("a").summary(),
            "all of TaskGroup server must be in one Node: after 3 of 4 Tasks, 1 of 1 node lacks "
            "cpu: a Task asks 0.9, at most 0.2 free");
  server.mutable_topology()->set_required(capstan::scheduler::v1::Topology::LEVEL_RACK);
  Submit("b", spec);
  const ExplainJobResponse response = Explain("b");
  EXPECT_EQ(response.summary(),
            "all of TaskGroup server must be in one rack: after 2 of 4 Tasks, 1 of 1 node lacks "
            "cpu: a Task asks 0.9, at most 0.1 free; 1 of 2 nodes is in no rack");
  ASSERT_EQ(response.constraints_size(), 2);
  EXPECT_EQ(response.constraints(1).type(), "topology");
  EXPECT_EQ(response.constraints(1).node_fits(0).node(), "clusters/local/nodes/n1");
  spec.mutable_topology()->set_required(capstan::scheduler::v1::Topology::LEVEL_RACK);
  server.mutable_topology()->set_required(capstan::scheduler::v1::Topology::LEVEL_NVLINK_DOMAIN);
  Submit("c", spec);
  EXPECT_EQ(Explain("c").summary(),
            "all of it must be in one rack and all of TaskGroup server must be in one NVLink "
            "domain: 1 of 2 nodes is in no rack; 1 of 2 nodes is in no NVLink domain");
}

TEST_F(ExplainTest, NamesMemoryAndAccelerators) {
  executor_.Connect();
  auto spec = CoreHarness::Spec(1, 100);
  spec.mutable_task_groups(0)->mutable_resources()->set_memory_bytes(int64_t{3} << 29);
  (*spec.mutable_task_groups(0)->mutable_resources()->mutable_accelerators())["nvidia.com/h100"] =
      1;
  Submit("b", spec);
  EXPECT_EQ(Explain("b").summary(),
            "2 of 2 nodes lack memory: a Task asks 1.5Gi, at most 1Gi free; 2 of 2 nodes lack "
            "accelerator:nvidia.com/h100: a Task asks 1, at most 0 free");
}

TEST_F(ExplainTest, SaysWhyNodesDoNotCount) {
  EXPECT_EQ(
      [&] {
        Submit("a", CoreHarness::Spec(1, 100));
        return Explain("a").summary();
      }(),
      "no node is known yet");
  executor_.Connect();
  harness_.Apply(CordonNode{1, "local", "n0", "me", ""});
  executor_.ReportNode(1, true);
  Submit("b", CoreHarness::Spec(1, 100));
  EXPECT_EQ(Explain("b").summary(), "1 of 2 nodes is cordoned; 1 of 2 nodes is silent");
  auto spec = CoreHarness::Spec(1, 100);
  spec.add_clusters("moon");
  Submit("c", spec);
  EXPECT_EQ(Explain("c").summary(), "2 of 2 nodes are in clusters that the Job may not use");
}

TEST_F(ExplainTest, CountsTheJobsAhead) {
  executor_.Connect();
  for (int i = 0; i < 3; ++i) {
    auto spec = CoreHarness::Spec(1, 4000);
    spec.set_priority(i == 2 ? -1 : 0);
    Submit(absl::StrCat("j", i), spec);
  }
  auto first = CoreHarness::Spec(1, 4000);
  first.set_priority(7);
  Submit("first", first);
  EXPECT_EQ(Explain("first").jobs_ahead(), 0);
  EXPECT_EQ(Explain("j0").jobs_ahead(), 1);
  EXPECT_EQ(Explain("j2").jobs_ahead(), 3);
}

TEST_F(ExplainTest, SaysWhatAPlacedJobWaitsFor) {
  executor_.Connect();
  Submit("a", CoreHarness::Spec(2, 1000));
  EXPECT_EQ(Explain("a").summary(),
            "placed; waits for 2 of 2 Tasks to be prepared: worker-0 on clusters/local/nodes/n0, "
            "worker-1 on clusters/local/nodes/n0");
  executor_.PrepareAll();
  EXPECT_EQ(Explain("a").summary(), "runs as generation 1 on 1 node");
  executor_.Disconnect();
  harness_.Advance(absl::Seconds(20));
  harness_.Apply(CancelJob{1, "projects/p/jobs/a", ""});
  EXPECT_EQ(Explain("a").summary(),
            "waits for the confirmed end of 2 of 2 Tasks: worker-0 on clusters/local/nodes/n0, "
            "worker-1 on clusters/local/nodes/n0; 1 of their Nodes is silent and is given up only "
            "once its Tasks must have ended themselves (fence_after 15m and a margin)");
}

TEST(ExplainFormatTest, WritesAmountsForPeople) {
  EXPECT_EQ(CoresInWords(4000), "4");
  EXPECT_EQ(CoresInWords(1500), "1.5");
  EXPECT_EQ(CoresInWords(250), "0.25");
  EXPECT_EQ(CoresInWords(0), "0");
  EXPECT_EQ(BytesInWords(256 << 20), "256Mi");
  EXPECT_EQ(BytesInWords(1000), "1000");
  EXPECT_EQ(BytesInWords(int64_t{5} << 40), "5Ti");
}

// Both are among those that room is kept for, the one with the higher priority first.
TEST(ExplainOthersTest, SaysWhenItStartsWhomRoomIsKeptForBehindOneThatWaitsForOrderedNodes) {
  Model model;
  const auto add = [&model](const std::string& uid, int priority, const std::string& reason) {
    JobEntry job;
    job.spec.set_uid(uid);
    job.spec.set_name("projects/p/jobs/" + uid);
    job.spec.set_submit_sequence(static_cast<int64_t>(model.jobs.size()) + 1);
    job.spec.mutable_spec()->set_priority(priority);
    job.state.set_state(capstan::scheduler::v1::Job::STATE_QUEUED);
    job.state.set_reason(reason);
    if (uid == "large") {
      *job.state.mutable_estimated_start_time() = ToProto(absl::UnixEpoch() + absl::Hours(1));
    }
    model.jobs.Add(std::move(job));
  };
  add("nominee", 5, kOrdered);
  add("large", 1, "INSUFFICIENT_RESOURCES");
  add("small", 0, "RESERVED");
  model.jobs.Rest();
  const ExplainJobResponse why = ExplainJob(model, *model.FindJob("small"), {}, absl::UnixEpoch());
  EXPECT_NE(why.summary().find(", by 1970-01-01T01:00:00Z"), std::string::npos) << why.summary();
  EXPECT_EQ(why.jobs_ahead(), 2);
}

}  // namespace
}  // namespace capstan::scheduler
