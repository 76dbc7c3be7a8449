#include "services/scheduler/core/share_book.h"

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "proto/capstan/scheduler/v1/node.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/demand.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/queue_world.h"
#include "services/scheduler/core/quota/queue_tree.h"
#include "services/scheduler/core/quota/random_tree.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Node;
using capstan::type::v1::TaskEnd;
using capstan::type::v1::TaskObservation;

constexpr char kGpu[] = "nvidia.com/h100";

rec::QueueRecord Queue(const std::string& id, int64_t weight, const std::string& parent = "") {
  rec::QueueRecord record;
  record.mutable_queue()->set_name(absl::StrCat("queues/", id));
  record.mutable_queue()->set_weight(weight);
  if (!parent.empty()) record.mutable_queue()->set_parent(absl::StrCat("queues/", parent));
  return record;
}

Amounts Of(int64_t cpu_millis, int64_t gpus) {
  Amounts amounts;
  amounts.cpu_millis = cpu_millis;
  if (gpus > 0) amounts.accelerators[kGpu] = gpus;
  return amounts;
}

rec::NodeRecord NodeOf(int64_t cpu_millis, int64_t gpus) {
  rec::NodeRecord node;
  node.set_state(Node::STATE_ACTIVE);
  node.mutable_observation()->mutable_allocatable()->set_cpu_millis(cpu_millis);
  if (gpus > 0) {
    (*node.mutable_observation()->mutable_allocatable()->mutable_accelerators())[kGpu] = gpus;
  }
  return node;
}

// Runs with so many Tasks of one GPU and a core.
JobEntry Running(const std::string& uid, const std::string& queue, int tasks) {
  JobEntry job;
  job.spec.set_uid(uid);
  job.spec.mutable_spec()->set_queue(absl::StrCat("queues/", queue));
  auto& group = *job.spec.mutable_spec()->add_task_groups();
  group.set_replicas(tasks);
  group.mutable_resources()->set_cpu_millis(1000);
  (*group.mutable_resources()->mutable_accelerators())[kGpu] = 1;
  Gang& gang = job.gang.emplace();
  gang.head.set_phase(rec::GangHeadRecord::PHASE_STARTED);
  gang.nodes.assign(tasks, "n");
  gang.tasks.resize(tasks);
  for (rec::TaskRecord& task : gang.tasks) task.set_state(TaskObservation::STATE_RUNNING);
  return job;
}

void End(int rank, TaskEnd::Cause cause, JobEntry* job) {
  rec::TaskRecord& task = job->gang->tasks[rank];
  task.set_state(TaskObservation::STATE_ENDED);
  task.mutable_end()->set_cause(cause);
}

TEST(ShareBookTest, SaysWhatIsInUseAndWhatIsFair) {
  ShareBook book;
  book.SetQueues({{"top", Queue("top", 1)},
                  {"a", Queue("a", 1, "top")},
                  {"b", Queue("b", 1, "top")},
                  {"c", Queue("c", 3)}});
  const rec::NodeRecord node = NodeOf(64'000, 8);
  book.SetNode({"c", "n0"}, &node, Of(6000, 6));
  book.SetNode({"c", "n1"}, &node, Of(0, 0));
  const JobEntry job = Running("j", "a", 6);
  book.SetJob("j", &job);
  EXPECT_EQ(book.Of("a").amounts.at(kGpu), (ShareBook::QueueShare::Amount{6, 0}))
      << "no share before it is computed";
  book.Compute({{"queues/b", {}, Of(1000, 1), 10}, {"queues/c", {}, Of(1000, 2), 1'000'000}});
  // Of 16 GPUs `top` has a quarter; below it each half of that.
  EXPECT_EQ(book.Of("a").amounts.at(kGpu), (ShareBook::QueueShare::Amount{6, 2}));
  EXPECT_EQ(book.Of("b").amounts.at(kGpu), (ShareBook::QueueShare::Amount{0, 2}));
  EXPECT_EQ(book.Of("top").amounts.at(kGpu), (ShareBook::QueueShare::Amount{6, 4}));
  EXPECT_EQ(book.Of("c").amounts.at(kGpu), (ShareBook::QueueShare::Amount{0, 12}));
  EXPECT_DOUBLE_EQ(book.Of("top").dominant, 6.0 / 16);
  EXPECT_DOUBLE_EQ(book.Of("top").fair_dominant, 4.0 / 16);
  EXPECT_DOUBLE_EQ(book.error(), (4.0 + 2 + 12) / 16 / 2);
  EXPECT_TRUE(book.Of("unknown").amounts.empty());
  // Once it is over, `b` and `c` have what they want.
  book.SetJob("j", nullptr);
  book.SetNode({"c", "n0"}, &node, Amounts());
  EXPECT_TRUE(book.Of("a").amounts.count("cpu") == 0 || book.Of("a").amounts.at("cpu").in_use == 0);
  book.Compute({});
  EXPECT_TRUE(book.Of("top").amounts.empty());
  EXPECT_EQ(book.error(), 0);
}

TEST(ShareBookTest, SharesAreOfWhatTakesTasksAndOfWhatIsInUse) {
  ShareBook book;
  book.SetQueues({{"a", Queue("a", 1)}});
  rec::NodeRecord node = NodeOf(64'000, 8);
  book.SetNode({"c", "n0"}, &node, Amounts());
  node.add_cordons();
  book.SetNode({"c", "n1"}, &node, Of(1000, 1));
  node.clear_cordons();
  node.set_state(Node::STATE_SILENT);
  book.SetNode({"c", "n2"}, &node, Of(1000, 1));
  const std::vector<DemandBook::Wanted> wanted = {{"queues/a", {}, Of(0, 1), 100}};
  book.Compute(wanted);
  EXPECT_EQ(book.Of("a").amounts.at(kGpu).fair_share, 10);
  book.SetNode({"c", "n1"}, nullptr, Amounts());
  book.Compute(wanted);
  EXPECT_EQ(book.Of("a").amounts.at(kGpu).fair_share, 9);
}

TEST(ShareBookTest, AcceleratorsAreFragmentedThatNobodyWhoWaitsCanUse) {
  ShareBook book;
  book.SetQueues({{"a", Queue("a", 1)}});
  const rec::NodeRecord node = NodeOf(64'000, 8);
  book.SetNode({"east", "n0"}, &node, Of(8000, 5));    // 3 left
  book.SetNode({"east", "n1"}, &node, Of(63'000, 2));  // 6, without the cores to use them
  book.SetNode({"west", "n2"}, &node, Of(8000, 1));    // 7
  book.Compute({});
  EXPECT_EQ(book.fragmented(), 0) << "nobody wants any";
  book.Compute({{"queues/a", {}, Of(500, 0), 9}});
  EXPECT_EQ(book.fragmented(), 0) << "nobody wants any";
  book.Compute({{"queues/a", {}, Of(4000, 4), 1}});
  EXPECT_EQ(book.fragmented(), 3 + 6);
  book.Compute({{"queues/a", {}, Of(4000, 4), 1}, {"queues/a", {}, Of(4000, 2), 1}});
  EXPECT_EQ(book.fragmented(), 6);
  book.Compute({{"queues/a", {"east"}, Of(4000, 2), 1}});
  EXPECT_EQ(book.fragmented(), 6 + 7);
  book.Compute({{"queues/a", {"east"}, Of(4000, 4), 1}, {"queues/a", {}, Of(4000, 8), 1}});
  EXPECT_EQ(book.fragmented(), 3 + 6 + 7);
}

TEST(ShareBookTest, AGangThatGoesOnWithoutATaskIsPartial) {
  ShareBook book;
  JobEntry job = Running("j", "a", 3);
  book.SetJob("j", &job);
  EXPECT_EQ(book.partial(), 0);
  End(0, TaskEnd::CAUSE_EXITED, &job);
  book.SetJob("j", &job);
  EXPECT_EQ(book.partial(), 0) << "it has done its work";
  End(1, TaskEnd::CAUSE_LOST, &job);
  book.SetJob("j", &job);
  EXPECT_EQ(book.partial(), 1);
  job.gang->head.set_phase(rec::GangHeadRecord::PHASE_STOPPING);
  book.SetJob("j", &job);
  EXPECT_EQ(book.partial(), 0);
}

TEST(ShareBookTest, AGangIsPartialThatLacksATaskItNeedsThoughOtherGroupsHaveMore) {
  ShareBook book;
  JobEntry job = Running("j", "a", 3);
  auto& spec = *job.spec.mutable_spec();
  *spec.add_task_groups() = spec.task_groups(0);
  spec.mutable_task_groups(0)->set_replicas(1);
  spec.mutable_task_groups(1)->set_replicas(2);
  spec.mutable_task_groups(1)->set_min_replicas(1);
  for (const int size : {1, 2}) job.gang->head.add_group_sizes(size);
  End(2, TaskEnd::CAUSE_LOST, &job);
  book.SetJob("j", &job);
  EXPECT_EQ(book.partial(), 0) << "one of what it has beyond its least";
  End(0, TaskEnd::CAUSE_LOST, &job);
  End(2, TaskEnd::CAUSE_EXITED, &job);
  book.SetJob("j", &job);
  EXPECT_EQ(book.partial(), 1);
}

// What follows each change is what is there if one begins anew, and both are a recount.
TEST(ShareBookTest, FollowsChanges) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    QueueWorld::Options options;
    options.seed = seed;
    options.queues =
        RandomQueues({.queues = 6, .depth = 3, .resources = 1, .max_guarantee = 8}, random);
    QueueWorld world(options);
    const std::vector<int> leaves = Leaves(world.tree());
    const Model& model = world.harness().core().model();
    ShareBook book;
    book.SetQueues(model.queues);
    std::set<std::string> known;
    for (int i = 0; i < 20; ++i) {
      world.Tick({leaves.begin(), leaves.end() - 1});
      // The core's own is as of the last round.
      NodeUsage usage;
      const auto give = [&](ShareBook* to) {
        for (const auto& [id, node] : model.nodes) to->SetNode(id, &node, usage.Get(id).allocated);
      };
      DemandBook demand{DemandConfig()};
      demand.Reset(model.jobs, world.harness().now());
      ShareBook anew;
      anew.SetQueues(model.queues);
      for (const auto& [uid, job] : model.jobs) {
        usage.Update(uid, &job);
        known.insert(uid);
        anew.SetJob(uid, &job);
      }
      for (const std::string& uid : known) book.SetJob(uid, model.FindJob(uid));
      give(&book);
      give(&anew);
      book.Compute(demand.WantedNow());
      anew.Compute(demand.WantedNow());
      EXPECT_EQ(book.error(), anew.error());
      EXPECT_EQ(book.partial(), 0);
      const std::vector<int64_t> used = world.Used();
      const std::vector<int64_t> fair = world.FairShares();
      for (int node = 1; node < world.tree().size(); ++node) {
        const std::string& id = world.tree().node(node).id;
        EXPECT_EQ(book.Of(id).amounts, anew.Of(id).amounts);
        const auto amounts = book.Of(id).amounts;
        const auto cpu = amounts.find("cpu");
        EXPECT_EQ(cpu == amounts.end() ? 0 : cpu->second.in_use, used[node]) << id;
        EXPECT_EQ(cpu == amounts.end() ? 0 : cpu->second.fair_share, fair[node]) << id;
      }
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace capstan::scheduler
