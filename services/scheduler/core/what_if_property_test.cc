// What SimulatePlacement says is what then happens, over random pasts: the same Nodes, the same
// victims, the same time, the same reason. And asking changes nothing.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/what_if.h"

namespace capstan::scheduler {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::SimulatePlacementRequest;
using capstan::scheduler::v1::SimulatePlacementResponse;
using capstan::scheduler::v1::Topology;
using capstan::type::v1::TaskEnd;
using JobOutcome = SimulatePlacementResponse::JobOutcome;

// In each of two Clusters.
constexpr int kFewNodes = 4;
// So many that rounds pause.
constexpr int kManyNodes = 150;
constexpr int kSteps = 40;
// Nodes of a placement that are told.
constexpr size_t kMaxNodesShown = 100;

class World {
 public:
  World(uint64_t seed, int nodes)
      : nodes_(nodes),
        with_mig_(seed % 4 == 3),
        random_(seed),
        harness_(Config(seed), nullptr, /*beside_anew=*/false) {
    for (const char* cluster : {"east", "west"}) {
      executors_.push_back(std::make_unique<FakeExecutor>(cluster, nodes, 4000, &harness_));
      for (int node = 0; node < nodes; ++node) {
        executors_.back()->set_labels(node, {{"topology.kubernetes.io/zone", "z"},
                                             {"capstan.dev/rail", absl::StrCat("s", node / 4)},
                                             {"capstan.dev/rack", absl::StrCat("r", node / 2)}});
        if (with_mig_) executors_.back()->set_mig_gpus(node, {"H100-80GB"});
      }
      executors_.back()->Connect();
    }
    for (int i = 0; seed % 3 == 0 && i < 4; ++i) {
      CreateMaintenanceWindow create;
      create.call = harness_.next_call();
      create.cluster = i % 2 == 0 ? "east" : "west";
      create.uid = create.window_id = absl::StrCat("w", i);
      (*create.window.mutable_node_labels())["capstan.dev/rack"] = absl::StrCat("r", i / 2);
      *create.window.mutable_start_time() =
          ToProto(harness_.now().wall + absl::Seconds(60 + 50 * i));
      *create.window.mutable_end_time() =
          ToProto(harness_.now().wall + absl::Seconds(300 + 50 * i));
      create.window.set_evict(i == 0);
      harness_.Deliver(harness_.Apply(create));
    }
    for (int i = 0; i < 2; ++i) {
      CreateQueue create;
      create.call = harness_.next_call();
      create.queue_id = create.uid = absl::StrCat("q", i);
      create.queue.set_weight(100 + 100 * i);
      auto& quota = *create.queue.add_quotas();
      quota.set_resource("cpu");
      quota.set_guarantee(int64_t{2000} * nodes);
      if (i == 1) quota.mutable_borrowing_limit()->set_amount(int64_t{3000} * nodes);
      harness_.Deliver(harness_.Apply(create));
    }
  }

  // `ask`: simulates something after each step.
  void Run(bool ask) {
    for (int i = 0; i < kSteps && !::testing::Test::HasFailure(); ++i) {
      Step();
      // Of its own, so that the worlds stay the same.
      Random other(static_cast<uint64_t>(i));
      if (ask) Simulate(AnyRequest(&other));
    }
    for (auto& executor : executors_) {
      executor->PrepareAll();
      executor->RunAll();
      executor->Renew();
    }
    harness_.Deliver(harness_.Advance(absl::Seconds(2)));
    // No round is under way, and what is told to end ends only later.
    harness_.Advance(absl::Seconds(1));
  }

  SimulatePlacementRequest AnyRequest(Random* random) {
    SimulatePlacementRequest request;
    request.set_parent("projects/p");
    for (int64_t n = random->Between(1, 4); n > 0; --n) *request.add_jobs() = AnySpec(random);
    if (random->OneIn(2)) return request;
    if (random->OneIn(2)) request.add_node_changes()->set_cordon("clusters/east/nodes/n0");
    auto& change = *request.add_node_changes();
    if (random->OneIn(2)) {
      change.set_uncordon("clusters/west/nodes/n3");
    } else {
      change.mutable_add()->set_count(static_cast<int>(random->Between(1, 3)));
      change.mutable_add()->set_like("clusters/west/nodes/n1");
    }
    return request;
  }

  SimulatePlacementResponse Simulate(const SimulatePlacementRequest& given) {
    const SimulatePlacementRequest request = WithDefaults(harness_.config(), given);
    status::FieldErrors errors;
    ValidateSimulatePlacement(harness_.config(), request, &errors);
    EXPECT_TRUE(errors.ok()) << errors.ToStatus();
    const Model& model = harness_.core().model();
    Simulation simulation(harness_.config(), StateForSimulation(model, request), harness_.now());
    auto response = simulation.Run(request, "person-1");
    EXPECT_TRUE(response.ok()) << response.status();
    EXPECT_FALSE(response->cut_short());
    return *std::move(response);
  }

  // Does what the request supposes, and says in the words of Said what came of each Job; then, of
  // those that had waited, who has started.
  std::vector<std::string> Really(const SimulatePlacementRequest& request) {
    std::set<std::string> waited;
    for (const auto& [uid, job] : harness_.jobs()) {
      if (job.state.state() == Job::STATE_QUEUED) waited.insert(uid);
    }
    for (const auto& change : request.node_changes()) {
      if (change.has_cordon()) harness_.Apply(CordonNode{0, "east", "n0", "test", ""});
      if (change.has_uncordon()) harness_.Apply(UncordonNode{0, "west", "n3", "test"});
      if (change.has_add()) {
        ObservationsReceived report;
        report.session = executors_[1]->session();
        report.observations.set_journal_sequence(1'000'000);
        for (int i = 1; i <= change.add().count(); ++i) {
          auto& node = *report.observations.add_nodes();
          node = harness_.core().model().nodes.at({"west", "n1"}).observation();
          node.set_node(absl::StrCat("simulated-", i));
        }
        harness_.Apply(report);
      }
    }
    if (request.node_changes_size() > 0) harness_.Advance(absl::Milliseconds(500));
    std::vector<std::string> started;
    for (const std::string& uid : waited) {
      if (harness_.job(uid).live()) started.push_back(uid);
    }
    // Nobody is told: what is to end goes on ending.
    for (int i = 0; i < request.jobs_size(); ++i) {
      harness_.Submit(absl::StrCat("simulated.", i), request.jobs(i));
    }
    harness_.Advance(absl::Milliseconds(500));
    std::vector<std::string> all;
    for (int i = 0; i < request.jobs_size(); ++i) {
      const JobEntry& job = harness_.job(absl::StrCat("simulated.", i));
      std::string said = job.state.reason();
      if (job.state.state() == Job::STATE_PREPARING) {
        std::map<std::string, int> nodes;
        std::set<std::string> more;
        for (size_t rank = 0; rank < job.gang->nodes.size(); ++rank) {
          const std::string name = job.gang->node(static_cast<int>(rank)).Name();
          if (nodes.size() < kMaxNodesShown || nodes.count(name) > 0) {
            ++nodes[name];
          } else {
            more.insert(name);
          }
        }
        absl::StrAppend(&said, " on ", nodes.size() + more.size());
        for (const auto& [name, tasks] : nodes) absl::StrAppend(&said, " ", name, ":", tasks);
      }
      std::set<std::string> victims;
      for (const auto& victim : job.state.making_room()) {
        victims.insert(
            absl::StrCat("projects/p/jobs/", victim.job_uid(), victim.shrinks() ? " shrinks" : ""));
      }
      absl::StrAppend(&said, absl::StrJoin(victims, " "));
      if (job.state.has_estimated_start_time()) {
        absl::StrAppend(&said, " ", absl::ToUnixMillis(ToTime(job.state.estimated_start_time())),
                        job.state.estimate_assumed() ? "?" : "");
      }
      all.push_back(std::move(said));
    }
    all.push_back(absl::StrCat(started.size()));
    return all;
  }

  static std::vector<std::string> Said(const SimulatePlacementResponse& response) {
    std::vector<std::string> all;
    for (const JobOutcome& outcome : response.jobs()) {
      std::string said = outcome.reason();
      std::map<std::string, int> nodes;
      for (const auto& use : outcome.nodes()) nodes[use.node()] = use.tasks();
      if (outcome.node_count() > 0) absl::StrAppend(&said, " on ", outcome.node_count());
      for (const auto& [name, tasks] : nodes) absl::StrAppend(&said, " ", name, ":", tasks);
      std::set<std::string> shrinking;
      for (const auto& one : outcome.shrinking()) {
        shrinking.insert(one.job());
        EXPECT_LT(one.gives_up(), one.tasks());
      }
      EXPECT_EQ(static_cast<int>(shrinking.size()), outcome.shrinking_count());
      std::set<std::string> victims;
      for (const std::string& name : outcome.victims()) {
        victims.insert(absl::StrCat(name, shrinking.count(name) > 0 ? " shrinks" : ""));
      }
      EXPECT_EQ(static_cast<int>(victims.size()), outcome.victim_count());
      absl::StrAppend(&said, absl::StrJoin(victims, " "));
      if (outcome.has_estimated_start_time()) {
        absl::StrAppend(&said, " ", absl::ToUnixMillis(ToTime(outcome.estimated_start_time())),
                        outcome.estimate_assumed() ? "?" : "");
      }
      all.push_back(std::move(said));
    }
    all.push_back(absl::StrCat(response.others().started()));
    return all;
  }

  Random& random() { return random_; }
  const CoreHarness& harness() const { return harness_; }

 private:
  static CoreConfig Config(uint64_t seed) {
    CoreConfig config;
    config.min_runtime = absl::Seconds(seed % 2 == 0 ? 1 : 60);
    return config;
  }

  JobSpec AnySpec(Random* random) const {
    JobSpec spec = CoreHarness::Spec(static_cast<int>(random->Between(1, 6)) * nodes_ / kFewNodes,
                                     random->Between(1, 4) * 1000);
    spec.set_queue(random->OneIn(3) ? "queues/q0"
                                    : (random->OneIn(2) ? "queues/q1" : "queues/default"));
    spec.set_priority(static_cast<int>(random->Between(-1, 1)));
    if (random->OneIn(3))
      *spec.mutable_time_limit() = ToProto(absl::Minutes(random->Between(1, 9)));
    if (random->OneIn(4)) spec.add_clusters(random->OneIn(2) ? "east" : "west");
    if (random->OneIn(3)) {
      auto& workers = *spec.mutable_task_groups(0);
      workers.set_min_replicas(std::max(workers.replicas() / 2, 1));
    }
    if (random->OneIn(3)) {
      spec.mutable_task_groups(0)->clear_min_replicas();
      spec.mutable_task_groups(0)->set_replicas(static_cast<int>(random->Between(1, 2)));
      spec.mutable_topology()->set_required(random->OneIn(2) ? Topology::LEVEL_RAIL
                                                             : Topology::LEVEL_RACK);
    }
    if (with_mig_ && random->OneIn(2)) {
      static constexpr const char* kProfiles[] = {"1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"};
      auto& mig = *spec.mutable_task_groups(0)->mutable_resources()->mutable_mig();
      mig.set_model("H100-80GB");
      mig.set_profile(kProfiles[random->Below(4)]);
    }
    return spec;
  }

  void Step() {
    FakeExecutor& executor = *executors_[random_.Below(executors_.size())];
    switch (random_.Below(8)) {
      case 0:
      case 1:
      case 2:
        harness_.Deliver(harness_.Submit(absl::StrCat("j", jobs_++), AnySpec(&random_)));
        break;
      case 3:
        executor.PrepareAll();
        break;
      case 4:
        executor.RunAll();
        break;
      case 5: {
        std::vector<std::string> running;
        for (const auto& [key, task] : executor.tasks()) {
          if (task.running()) running.push_back(key);
        }
        if (!running.empty()) {
          executor.End(running[random_.Below(running.size())], TaskEnd::CAUSE_EXITED);
        }
        break;
      }
      case 6:
        if (random_.OneIn(2)) {
          harness_.Deliver(harness_.Apply(CordonNode{0, "west", "n3", "test", ""}));
        } else {
          harness_.Deliver(harness_.Apply(UncordonNode{0, "west", "n3", "test"}));
        }
        break;
      default:
        for (auto& other : executors_) other->Renew();
        harness_.Deliver(harness_.Advance(absl::Seconds(random_.Between(1, 12))));
        break;
    }
  }

  const int nodes_;
  // Each Node has a GPU in MIG mode, and half of the Jobs ask for a part of one.
  const bool with_mig_;
  Random random_;
  CoreHarness harness_;
  std::vector<std::unique_ptr<FakeExecutor>> executors_;
  int jobs_ = 0;
};

// What was foretold of Jobs, and how many others were to start.
struct Foretold {
  std::map<int, int> outcomes;
  int started = 0;
};

Foretold ForetellInWorlds(uint64_t seeds, int nodes) {
  Foretold all;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    World world(seed, nodes);
    world.Run(/*ask=*/false);
    const SimulatePlacementRequest request = world.AnyRequest(&world.random());
    const SimulatePlacementResponse response = world.Simulate(request);
    EXPECT_EQ(World::Said(response), world.Really(request)) << request.DebugString();
    if (::testing::Test::HasFailure()) break;
    for (const JobOutcome& outcome : response.jobs()) ++all.outcomes[outcome.outcome()];
    all.started += response.others().started();
  }
  return all;
}

TEST(WhatIfPropertyTest, WhatItSaysIsWhatThenHappens) {
  Foretold told = ForetellInWorlds(100, kFewNodes);
  // The test has to have tested something.
  EXPECT_GT(told.outcomes[JobOutcome::OUTCOME_STARTS], 15);
  EXPECT_GT(told.outcomes[JobOutcome::OUTCOME_MAKES_ROOM], 5);
  EXPECT_GT(told.outcomes[JobOutcome::OUTCOME_STARTS_LATER], 2);
  EXPECT_GT(told.outcomes[JobOutcome::OUTCOME_WAITS], 15);
  EXPECT_GT(told.started, 5);
}

TEST(WhatIfPropertyTest, WhatItSaysIsWhatThenHappensWhereRoundsPause) {
  Foretold told = ForetellInWorlds(60, kManyNodes);
  EXPECT_GT(told.outcomes[JobOutcome::OUTCOME_STARTS], 5);
  EXPECT_GT(told.outcomes[JobOutcome::OUTCOME_MAKES_ROOM], 1);
  EXPECT_GT(told.outcomes[JobOutcome::OUTCOME_WAITS], 5);
}

TEST(WhatIfPropertyTest, AskingChangesNothing) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    World asked(seed, kFewNodes);
    asked.Run(/*ask=*/true);
    World left_alone(seed, kFewNodes);
    left_alone.Run(/*ask=*/false);
    EXPECT_EQ(asked.harness().records(), left_alone.harness().records());
    EXPECT_EQ(asked.harness().events().size(), left_alone.harness().events().size());
    if (HasFailure()) return;
  }
}

TEST(WhatIfPropertyTest, TheSameQuestionHasTheSameAnswer) {
  World world(7, kFewNodes);
  world.Run(/*ask=*/false);
  const SimulatePlacementRequest request = world.AnyRequest(&world.random());
  EXPECT_EQ(world.Simulate(request).SerializeAsString(),
            world.Simulate(request).SerializeAsString());
}

}  // namespace
}  // namespace capstan::scheduler
