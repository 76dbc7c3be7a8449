// Tasks that ask for MIG instances. That no two overlap on a GPU, and that each has what it asks
// for, CoreHarness checks after every step.
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/render.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::type::v1::TaskEnd;

// n0 with two H100 in MIG mode, n1 with an A30, n2 without any.
class SchedulerCoreMigTest : public ::testing::Test {
 protected:
  SchedulerCoreMigTest() {
    executor_.set_mig_gpus(0, {"H100-80GB", "H100-80GB"});
    executor_.set_mig_gpus(1, {"A30-24GB"});
    executor_.Connect();
  }
  static CoreConfig Config() {
    CoreConfig config;
    config.min_runtime = absl::ZeroDuration();
    return config;
  }
  static JobSpec Sliced(int replicas, const std::string& profile,
                        const std::string& model = "H100-80GB") {
    JobSpec spec = CoreHarness::Spec(replicas, 10);
    spec.mutable_task_groups(0)->mutable_resources()->mutable_mig()->set_model(model);
    spec.mutable_task_groups(0)->mutable_resources()->mutable_mig()->set_profile(profile);
    return spec;
  }
  void Submit(const std::string& id, const JobSpec& spec) {
    harness_.Deliver(harness_.Submit(id, spec));
  }
  void Start(const std::string& id, const JobSpec& spec) {
    Submit(id, spec);
    Work();
    ASSERT_EQ(StateOf(id), Job::STATE_RUNNING) << id << ": " << harness_.job(id).state.message();
  }
  void Work() {
    executor_.PrepareAll();
    executor_.RunAll();
  }
  void Pass(absl::Duration d) {
    for (const BootTime end = harness_.now().boot + d; harness_.now().boot < end;) {
      executor_.Renew();
      harness_.Deliver(harness_.Advance(absl::Seconds(1)));
      Work();
    }
  }
  void EndAll(const std::string& uid, TaskEnd::Cause cause = TaskEnd::CAUSE_EXITED) {
    for (const std::string& key : executor_.Keys()) {
      const auto task = executor_.tasks().find(key);
      if (task == executor_.tasks().end() || task->second.desired.key().job_uid() != uid) continue;
      if (task->second.running()) executor_.End(key, cause);
    }
  }
  Job::State StateOf(const std::string& uid) const { return harness_.job(uid).state.state(); }
  std::string ReasonOf(const std::string& uid) const { return harness_.job(uid).state.reason(); }
  // `n0/1 3g.40gb@4` of each rank.
  std::vector<std::string> InstancesOf(const std::string& uid) const {
    std::vector<std::string> all;
    const JobEntry& job = harness_.job(uid);
    for (size_t rank = 0; rank < job.gang->nodes.size(); ++rank) {
      const auto instance = MigInstanceOf(job, static_cast<int>(rank));
      all.push_back(instance.has_value()
                        ? absl::StrCat(job.gang->nodes[rank], "/", instance->gpu(), " ",
                                       instance->profile(), "@", instance->start())
                        : job.gang->nodes[rank]);
    }
    return all;
  }

  CoreHarness harness_{Config()};
  FakeExecutor executor_{"local", 3, 4000, &harness_};
};

using Strings = std::vector<std::string>;

TEST_F(SchedulerCoreMigTest, PlacesAGangOnGpusOfItsModelAndTellsAgentsWhere) {
  Start("a", Sliced(14, "1g.10gb"));
  const Strings instances = InstancesOf("a");
  EXPECT_EQ(std::set<std::string>(instances.begin(), instances.end()).size(), 14u);
  for (const auto& [key, task] : executor_.tasks()) {
    EXPECT_EQ(task.desired.node(), "n0");
    ASSERT_TRUE(task.desired.launch().has_mig_instance()) << key;
    EXPECT_EQ(task.desired.launch().mig_instance().model(), "H100-80GB");
    EXPECT_EQ(task.desired.launch().mig_instance().profile(), "1g.10gb");
  }
  Start("b", Sliced(1, "2g.12gb", "A30-24GB"));
  EXPECT_EQ(harness_.job("b").gang->nodes, Strings{"n1"});
  Start("c", CoreHarness::Spec(1, 10));
  EXPECT_TRUE(harness_.job("c").gang->mig.empty());
}

TEST_F(SchedulerCoreMigTest, TakesTheNamesOfKubernetes) {
  Start("a", Sliced(1, "nvidia.com/mig-1g.10gb.me"));
  EXPECT_EQ(harness_.job("a").spec.spec().task_groups(0).resources().mig().profile(), "1g.10gb+me");
}

TEST_F(SchedulerCoreMigTest, KeepsLargeProfilesPossible) {
  executor_.set_mig_gpus(0, {"H100-80GB"});
  executor_.ReportNode(0, false);
  Start("small", Sliced(1, "1g.10gb"));
  // First fit would have put it at 0, where nothing of 4 slices fits beside it but 3g at 4.
  EXPECT_EQ(InstancesOf("small"), Strings{"n0/0 1g.10gb@6"});
  Start("large", Sliced(1, "4g.40gb"));
  EXPECT_EQ(InstancesOf("large"), Strings{"n0/0 4g.40gb@0"});
  // Four memory slices less one are left, and two compute slices.
  Submit("other", Sliced(1, "3g.40gb"));
  EXPECT_EQ(StateOf("other"), Job::STATE_QUEUED);
  Start("last", Sliced(2, "1g.10gb"));
}

TEST_F(SchedulerCoreMigTest, PlacesAllOrNone) {
  Submit("a", Sliced(5, "3g.40gb"));
  EXPECT_EQ(StateOf("a"), Job::STATE_QUEUED);
  EXPECT_EQ(ReasonOf("a"), "INSUFFICIENT_RESOURCES");
  Start("b", Sliced(4, "3g.40gb"));
  // 3g twice fills the memory, though a compute slice idles.
  Submit("c", Sliced(1, "1g.10gb"));
  EXPECT_EQ(StateOf("c"), Job::STATE_QUEUED);
}

TEST_F(SchedulerCoreMigTest, GroupsOfAGangMayAskForDifferentProfiles) {
  JobSpec spec = Sliced(2, "1g.10gb");
  *spec.add_task_groups() = Sliced(2, "4g.40gb").task_groups(0);
  spec.mutable_task_groups(1)->set_name("large");
  *spec.add_task_groups() = CoreHarness::Spec(1, 10).task_groups(0);
  spec.mutable_task_groups(2)->set_name("server");
  Start("a", spec);
  EXPECT_EQ(harness_.job("a").gang->mig.size(), 5u);
}

TEST_F(SchedulerCoreMigTest, NeverSharesAGpuWithOneThatTakesAllOfIt) {
  Start("a", Sliced(1, "1g.10gb"));
  Start("b", Sliced(1, "7g.80gb"));
  Submit("c", Sliced(1, "7g.80gb"));
  EXPECT_EQ(StateOf("c"), Job::STATE_QUEUED);
  EndAll("a");
  Pass(absl::Seconds(2));
  EXPECT_EQ(StateOf("c"), Job::STATE_RUNNING);
  Submit("d", Sliced(1, "1g.10gb"));
  EXPECT_EQ(StateOf("d"), Job::STATE_QUEUED);
}

TEST_F(SchedulerCoreMigTest, WholeDevicesAreNotThoseInMigMode) {
  JobSpec whole = CoreHarness::Spec(1, 10);
  (*whole.mutable_task_groups(0)->mutable_resources()->mutable_accelerators())["nvidia.com/h100"] =
      1;
  Submit("whole", whole);
  EXPECT_EQ(StateOf("whole"), Job::STATE_QUEUED);
}

TEST_F(SchedulerCoreMigTest, ANewLeaderKnowsWhatIsHeld) {
  Start("a", Sliced(3, "2g.20gb"));
  Start("b", Sliced(1, "3g.40gb"));
  const Strings a = InstancesOf("a");
  const Strings b = InstancesOf("b");
  executor_.Disconnect();
  harness_.Deliver(harness_.NewLeader());
  executor_.Connect();
  EXPECT_EQ(InstancesOf("a"), a);
  EXPECT_EQ(InstancesOf("b"), b);
  Pass(absl::Seconds(2));
  EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
  Start("c", Sliced(1, "3g.40gb"));
  // Of 14 compute slices two are left.
  Submit("d", Sliced(3, "1g.10gb"));
  EXPECT_EQ(StateOf("d"), Job::STATE_QUEUED);
}

TEST_F(SchedulerCoreMigTest, APlacementThatLacksAnInstanceIsDamaged) {
  JobSpec spec = Sliced(3, "2g.20gb");
  *spec.add_task_groups() = CoreHarness::Spec(1, 10).task_groups(0);
  spec.mutable_task_groups(1)->set_name("server");
  Start("a", spec);
  for (const int lacking : {0, 1, 3}) {
    ModelBuilder builder;
    for (auto [key, value] : harness_.records()) {
      if (absl::StrContains(key, "gangs/placement")) {
        rec::PlacementChunkRecord chunk;
        ASSERT_TRUE(chunk.ParseFromString(value));
        // Of those that ask for one only.
        ASSERT_EQ(chunk.mig_size(), 3);
        for (int i = 0; i < lacking; ++i) chunk.mutable_mig()->RemoveLast();
        value = chunk.SerializeAsString();
      }
      ASSERT_TRUE(builder.Apply(key, absl::string_view(value)).ok());
    }
    EXPECT_EQ(builder.Resolve().code(),
              lacking == 0 ? absl::StatusCode::kOk : absl::StatusCode::kDataLoss);
  }
}

TEST_F(SchedulerCoreMigTest, AFailedGangReturnsToItsInstances) {
  Start("a", Sliced(3, "3g.40gb"));
  const Strings before = InstancesOf("a");
  Submit("b", Sliced(2, "3g.40gb"));
  executor_.End(executor_.Keys()[1], TaskEnd::CAUSE_LOST);
  Pass(absl::Seconds(3));
  EXPECT_EQ(StateOf("a"), Job::STATE_RUNNING);
  EXPECT_EQ(harness_.job("a").state.generation(), 2);
  EXPECT_EQ(InstancesOf("a"), before);
  EXPECT_EQ(StateOf("b"), Job::STATE_QUEUED);
}

TEST_F(SchedulerCoreMigTest, EndsNoMoreThanWhatIsInTheWay) {
  Start("a", Sliced(1, "1g.10gb"));
  Start("b", Sliced(1, "7g.80gb"));
  Start("c", Sliced(1, "1g.6gb", "A30-24GB"));
  Start("d", CoreHarness::Spec(1, 10));
  JobSpec high = Sliced(1, "4g.40gb");
  high.set_priority(5);
  Start("fits", high);
  // Beside 4g and 1g a 3g does not fit; without the 1g it does.
  JobSpec higher = Sliced(1, "3g.40gb");
  higher.set_priority(9);
  Submit("higher", higher);
  Pass(absl::Seconds(3));
  EXPECT_EQ(StateOf("higher"), Job::STATE_RUNNING) << harness_.job("higher").state.message();
  EXPECT_EQ(StateOf("a"), Job::STATE_QUEUED);
  EXPECT_EQ(harness_.job("a").state.preemptions(), 1);
  for (const char* uid : {"b", "c", "d", "fits"}) EXPECT_EQ(StateOf(uid), Job::STATE_RUNNING);
}

TEST_F(SchedulerCoreMigTest, KeepsRoomOnOneGpuForTheFirstThatWaits) {
  executor_.set_mig_gpus(0, {"H100-80GB"});
  executor_.ReportNode(0, false);
  JobSpec running = Sliced(1, "3g.40gb");
  *running.mutable_time_limit() = ToProto(absl::Minutes(10));
  Start("running", running);
  Submit("whole", Sliced(1, "7g.80gb"));
  ASSERT_TRUE(harness_.job("whole").state.has_estimated_start_time());
  EXPECT_FALSE(harness_.job("whole").state.estimate_assumed());
  // Who would still be there then waits, though there is room for it now.
  Submit("endless", Sliced(1, "1g.10gb"));
  EXPECT_EQ(ReasonOf("endless"), "RESERVED");
  JobSpec brief = Sliced(1, "1g.10gb");
  *brief.mutable_time_limit() = ToProto(absl::Minutes(2));
  Start("brief", brief);
  Start("elsewhere", Sliced(1, "1g.6gb", "A30-24GB"));
}

TEST_F(SchedulerCoreMigTest, TakesBesideAReservationWhatItLeaves) {
  executor_.set_mig_gpus(0, {"H100-80GB"});
  executor_.ReportNode(0, false);
  JobSpec running = Sliced(1, "4g.40gb");
  *running.mutable_time_limit() = ToProto(absl::Minutes(10));
  Start("running", running);
  // Waits for the 4g at 0 to end; what begins at 4 and later is not in its way.
  Submit("waiting", Sliced(1, "4g.40gb"));
  ASSERT_TRUE(harness_.job("waiting").state.has_estimated_start_time());
  Start("beside", Sliced(1, "3g.40gb"));
  EXPECT_EQ(InstancesOf("beside"), Strings{"n0/0 3g.40gb@4"});
  EndAll("running");
  Pass(absl::Seconds(2));
  EXPECT_EQ(StateOf("waiting"), Job::STATE_RUNNING);
}

TEST_F(SchedulerCoreMigTest, AnElasticGangGetsAsManyAsFit) {
  Start("first", Sliced(1, "4g.40gb"));
  JobSpec elastic = Sliced(20, "1g.10gb");
  elastic.mutable_task_groups(0)->set_min_replicas(2);
  Start("elastic", elastic);
  // Three compute slices beside the 4g, and seven on the other GPU.
  EXPECT_EQ(harness_.job("elastic").gang->nodes.size(), 10u);
}

TEST_F(SchedulerCoreMigTest, QueuesCountMemorySlices) {
  UpdateQueue limit;
  limit.call = harness_.next_call();
  limit.queue_id = "default";
  auto& quota = *limit.queue.add_quotas();
  quota.set_resource("mig/h100-80gb");
  quota.mutable_borrowing_limit()->set_amount(8);
  limit.update_mask.add_paths("quotas");
  harness_.Deliver(harness_.Apply(limit));
  Start("a", Sliced(1, "4g.40gb"));
  Submit("b", Sliced(5, "1g.10gb"));
  EXPECT_EQ(ReasonOf("b"), "QUEUE_LIMIT") << harness_.job("b").state.message();
  Start("c", Sliced(4, "1g.10gb"));
  Start("d", Sliced(1, "4g.24gb", "A30-24GB"));
}

TEST_F(SchedulerCoreMigTest, SaysWhatLacks) {
  Start("a", Sliced(1, "7g.80gb"));
  Start("b", Sliced(1, "1g.10gb"));
  Submit("c", Sliced(1, "7g.80gb"));
  NodeUsage usage;
  for (const char* uid : {"a", "b"}) usage.Update(uid, &harness_.job(uid));
  const Model& model = harness_.core().model();
  const auto answer =
      ExplainJob(model, harness_.job("c"), Standings(model, usage, {}, {}, harness_.now().wall),
                 harness_.now().wall);
  ASSERT_EQ(answer.constraints_size(), 1) << answer.DebugString();
  const auto& lacks = answer.constraints(0);
  EXPECT_EQ(lacks.type(), "mig");
  EXPECT_EQ(lacks.nodes(), 3);
  EXPECT_EQ(lacks.requested(), 8);
  // So much of n0 is free, but not in one piece.
  EXPECT_EQ(lacks.available(), 7);
  EXPECT_EQ(lacks.node_fits(0).node(), "clusters/local/nodes/n0");
  EXPECT_EQ(lacks.message(),
            "3 of 3 nodes have no place for a 7g.80gb instance: 1 has GPUs in MIG mode of model "
            "H100-80GB, none of these with room for it in one piece");
  // Of a model that no Node has.
  Submit("d", Sliced(1, "1g.18gb", "H200-141GB"));
  const auto other =
      ExplainJob(model, harness_.job("d"), Standings(model, usage, {}, {}, harness_.now().wall),
                 harness_.now().wall);
  ASSERT_EQ(other.constraints_size(), 1) << other.DebugString();
  EXPECT_EQ(other.constraints(0).message(),
            "3 of 3 nodes have no place for a 1g.18gb instance: 0 have GPUs in MIG mode of model "
            "H200-141GB");
}

TEST_F(SchedulerCoreMigTest, NodesShowTheirGpus) {
  Start("a", Sliced(2, "3g.40gb"));
  NodeUsage usage;
  usage.Update("a", &harness_.job("a"));
  const NodeId id{"local", "n0"};
  const v1::Node node = RenderNode(id, harness_.core().model().nodes.at(id), usage.Get(id), {});
  ASSERT_EQ(node.mig_gpus_size(), 2);
  EXPECT_EQ(node.allocatable().accelerators().at("mig/h100-80gb"), 16);
  EXPECT_EQ(node.allocated().accelerators().at("mig/h100-80gb"), 8);
  EXPECT_EQ(node.mig_gpus(0).gpu().model(), "H100-80GB");
  std::vector<std::string> shown;
  for (const auto& gpu : node.mig_gpus()) {
    for (const auto& instance : gpu.instances()) {
      shown.push_back(
          absl::StrCat("n0/", instance.gpu(), " ", instance.profile(), "@", instance.start()));
    }
  }
  const Strings has = InstancesOf("a");
  EXPECT_EQ(std::set<std::string>(shown.begin(), shown.end()),
            std::set<std::string>(has.begin(), has.end()));
}

}  // namespace
}  // namespace capstan::scheduler
