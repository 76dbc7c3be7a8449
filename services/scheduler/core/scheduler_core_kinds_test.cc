// A round asks once about Jobs that are alike. Two cores live through the same: one so, one that
// asks about each Job that waits. They come to the same decisions at the same time: who is placed
// where, who ends for whom, for whom room is kept and until when.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/core_harness.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::Queue;
using capstan::type::v1::TaskEnd;

constexpr int kNodes = 6;

class World {
 public:
  explicit World(bool visit_all)
      : harness_(Config(visit_all)), executor_("c", kNodes, 4000, &harness_) {
    for (int node = 0; node < kNodes; ++node) {
      executor_.set_labels(node, {{"capstan.dev/rack", node < 4 ? "first" : "second"}});
    }
    executor_.Connect();
    // Two levels; one Queue has a guarantee, of which it lends nothing, one has a limit.
    Create("a", "", [](Queue* queue) { queue->set_weight(300); });
    Create("b", "", [](Queue*) {});
    Create("b1", "b", [](Queue* queue) {
      auto* quota = queue->add_quotas();
      quota->set_resource("cpu");
      quota->set_guarantee(6000);
      quota->mutable_lending_limit()->set_amount(0);
    });
    Create("b2", "b", [](Queue* queue) {
      auto* quota = queue->add_quotas();
      quota->set_resource("cpu");
      quota->set_guarantee(2000);
      quota->mutable_borrowing_limit()->set_amount(6000);
    });
  }

  // `random` decides all that the state does not.
  void Step(Random random) {
    switch (random.Below(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        for (int64_t n = random.Between(1, 4); n > 0; --n) {
          const std::string id = absl::StrCat("j", jobs_++);
          executor_.Take(harness_.Submit(id, AnySpec(&random)));
        }
        break;
      case 4:
        if (jobs_ == 0) break;
        executor_.Take(harness_.Apply(CancelJob{
            harness_.next_call(), absl::StrCat("projects/p/jobs/j", random.Below(jobs_)), ""}));
        break;
      case 5:
        executor_.PrepareAll();
        break;
      case 6:
        executor_.RunAll();
        break;
      case 7:
      case 8:
        EndSomething(&random);
        break;
      case 9: {
        const int node = static_cast<int>(random.Below(kNodes));
        executor_.ReportNode(node, executor_.hears(executor_.NodeName(node)) && random.OneIn(4));
        break;
      }
      case 10:
        Touch(random.OneIn(2) ? 300 : 50);
        break;
      default:
        executor_.Renew();
        executor_.Take(harness_.Advance(absl::Seconds(random.Between(1, 40))));
    }
  }

  // A round in which nothing can start that could not before.
  void Settle() { Touch(harness_.core().model().queues.at("a").queue().weight()); }

  std::map<std::string, std::string> Decisions() const {
    std::map<std::string, std::string> all;
    for (const auto& [uid, job] : harness_.jobs()) {
      std::string& one = all[uid];
      one = absl::StrCat(Job::State_Name(job.state.state()), " generation ", job.state.generation(),
                         " room by ", job.state.making_room_size());
      if (job.live()) absl::StrAppend(&one, " on ", absl::StrJoin(job.gang->nodes, ","));
      if (job.state.has_estimated_start_time()) {
        absl::StrAppend(&one, " at ", job.state.estimated_start_time().ShortDebugString());
      }
    }
    return all;
  }

  std::map<std::string, std::string> Reasons() const {
    std::map<std::string, std::string> all;
    for (const auto& [uid, job] : harness_.jobs()) {
      all[uid] = absl::StrCat(job.state.reason(), " ",
                              job.state.reason() == "QUEUE_LIMIT" ? job.state.message() : "");
    }
    return all;
  }

  int Count(const std::string& reason) const {
    int count = 0;
    for (const auto& [uid, job] : harness_.jobs()) count += job.state.reason() == reason ? 1 : 0;
    return count;
  }
  int64_t generations() const {
    int64_t sum = 0;
    for (const auto& [uid, job] : harness_.jobs()) sum += job.state.generation();
    return sum;
  }
  int preemptions() const {
    int sum = 0;
    for (const auto& [uid, job] : harness_.jobs()) sum += job.state.preemptions();
    return sum;
  }

 private:
  static CoreConfig Config(bool visit_all) {
    CoreConfig config;
    config.min_runtime = absl::ZeroDuration();
    config.visit_all = visit_all;
    return config;
  }

  template <typename Set>
  void Create(const std::string& id, const std::string& parent, Set set) {
    CreateQueue create;
    create.call = harness_.next_call();
    create.queue_id = create.uid = id;
    create.queue.set_weight(100);
    if (!parent.empty()) create.queue.set_parent(absl::StrCat("queues/", parent));
    set(&create.queue);
    const std::vector<Effect> effects = harness_.Apply(create);
    ASSERT_TRUE(Of<ReplyQueue>(effects)[0].queue.ok());
    executor_.Take(effects);
  }

  void Touch(int64_t weight) {
    UpdateQueue update;
    update.call = harness_.next_call();
    update.queue_id = "a";
    update.update_mask.add_paths("weight");
    update.queue.set_weight(weight);
    executor_.Take(harness_.Apply(update));
  }

  // One of few shapes, so that many are alike.
  static JobSpec AnySpec(Random* random) {
    static constexpr const char* kQueues[] = {"queues/a", "queues/b1", "queues/b2",
                                              "queues/default"};
    JobSpec spec = CoreHarness::Spec(1 << random->Below(4), 1000 << random->Below(3));
    spec.set_queue(kQueues[random->Below(4)]);
    spec.set_priority(random->OneIn(4) ? 1 : 0);
    if (random->OneIn(2)) {
      *spec.mutable_time_limit() = ToProto(absl::Seconds(30) * (1 + random->Below(2)));
    }
    if (random->OneIn(4)) {
      auto& workers = *spec.mutable_task_groups(0);
      workers.set_min_replicas(std::max(workers.replicas() / 2, 1));
    }
    if (random->OneIn(4)) {
      spec.mutable_topology()->set_required(capstan::scheduler::v1::Topology::LEVEL_RACK);
    }
    return spec;
  }

  void EndSomething(Random* random) {
    std::vector<std::string> running;
    for (const auto& [key, task] : executor_.tasks()) {
      if (task.running() && executor_.hears(task.desired.node())) running.push_back(key);
    }
    if (running.empty()) return;
    const std::string key = running[random->Below(running.size())];
    executor_.End(key, random->OneIn(4) ? TaskEnd::CAUSE_LOST : TaskEnd::CAUSE_EXITED);
  }

  CoreHarness harness_;
  FakeExecutor executor_;
  int jobs_ = 0;
};

TEST(SchedulerCoreKindsTest, AskingOncePerKindDecidesAsAskingEveryone) {
  int64_t generations = 0;
  int preemptions = 0;
  std::map<std::string, int> reasons;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    World by_kind(/*visit_all=*/false), by_job(/*visit_all=*/true);
    Random random(seed);
    for (int i = 0; i < 120; ++i) {
      const Random step(random.Next());
      by_kind.Step(step);
      by_job.Step(step);
      ASSERT_EQ(by_kind.Decisions(), by_job.Decisions()) << "after step " << i;
      // Of whom room is kept for few are left at an end.
      reasons["RESERVED"] += by_kind.Count("RESERVED");
    }
    // What a record says of why it waits may follow in the next round.
    by_kind.Settle();
    by_job.Settle();
    ASSERT_EQ(by_kind.Decisions(), by_job.Decisions());
    ASSERT_EQ(by_kind.Reasons(), by_job.Reasons());
    generations += by_kind.generations();
    preemptions += by_kind.preemptions();
    for (const char* reason : {"QUEUE_LIMIT", "INSUFFICIENT_RESOURCES"}) {
      reasons[reason] += by_kind.Count(reason);
    }
  }
  EXPECT_GT(generations, 200);
  EXPECT_GT(preemptions, 8);
  EXPECT_GT(reasons["QUEUE_LIMIT"], 40);
  EXPECT_GT(reasons["RESERVED"], 500);
  EXPECT_GT(reasons["INSUFFICIENT_RESOURCES"], 40);
}

}  // namespace
}  // namespace capstan::scheduler
