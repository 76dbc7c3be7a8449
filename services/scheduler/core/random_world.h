#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_RANDOM_WORLD_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_RANDOM_WORLD_H_

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/mig/layouts.h"
#include "libs/mig/profiles.h"
#include "libs/mig/state_table.h"
#include "libs/random/random.h"
#include "libs/time/proto_time.h"
#include "services/scheduler/core/capacity_orders.h"
#include "services/scheduler/core/core_harness.h"
#include "services/scheduler/core/demand_class.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/optional_parts.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/queue_checks.h"
#include "services/scheduler/core/random_queues.h"
#include "services/scheduler/core/scheduler_core.h"
#include "services/scheduler/core/tight_placer.h"
#include "services/scheduler/core/topology_levels.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// For tests: a core, its executors and people, of whom each does something at random, with crashes
// between any two writes and other faults. After each step it checks, beside what CoreHarness does,
// that no Task of two generations is ever alive at once and that nothing acknowledged is lost; at
// the end all is healed, and every Job must come to an end. Equal seeds make equal worlds.
class RandomWorld {
 public:
  explicit RandomWorld(uint64_t seed, CoreHarness::Observer observer = nullptr)
      : random_(seed),
        with_windows_(seed % 2 == 1),
        calm_(seed % 8 == 6 || seed % 8 == 3),
        with_mig_(seed % 4 == 3 || seed % 16 == 6),
        selective_(seed % 8 == 0 || seed % 8 == 5 || seed % 16 == 7),
        updates_(seed % 3 == 1),
        harness_(
            Config(seed),
            [this, observer = std::move(observer)](const auto&... said) {
              SawStep(said...);
              if (observer) observer(said...);
            },
            /*beside_anew=*/seed % 5 < 2) {
    for (const char* cluster : {"east", "west"}) {
      executors_.push_back(std::make_unique<FakeExecutor>(cluster, kNodes, 4000, &harness_));
      // Two Nodes of the first rack, one of the second.
      for (int node = 0; node < kNodes; ++node) SetLabels(executors_.back().get(), node, "");
      if (with_mig_) {
        executors_.back()->set_mig_gpus(0, {"H100-80GB", "H100-80GB"});
        executors_.back()->set_mig_gpus(1, {"H100-80GB", "H100-80GB"});
        executors_.back()->set_mig_gpus(2, {"A30-24GB", "H100-80GB"});
      }
      executors_.back()->Connect();
    }
    if (seed % 8 == 1 || seed % 8 == 4 || seed % 8 == 5) queues_.emplace(seed, &harness_);
    if (seed % 8 != 2) return;
    UpdateQueue budget;
    budget.call = harness_.next_call();
    budget.queue_id = "default";
    budget.queue.mutable_disruption_budget()->set_count(1);
    *budget.queue.mutable_disruption_budget()->mutable_period() = ToProto(absl::Minutes(3));
    budget.update_mask.add_paths("disruption_budget");
    Give(harness_.Apply(budget));
  }

  void Run() {
    for (int i = 0; i < kSteps && !::testing::Test::HasFailure(); ++i) {
      Step();
      if (queues_.has_value()) Give(queues_->MayChange());
      Check();
    }
    if (queues_.has_value()) Give(queues_->Heal());
    Heal();
  }

  int generations() const { return generations_; }
  // Jobs with a level for one group.
  int grouped() const { return grouped_; }
  int sliced() const { return sliced_; }
  int sectioned() const { return sectioned_; }
  // Generations with MIG instances, and the most Jobs seen at once on one GPU.
  int with_instances() const { return with_instances_; }
  int most_on_a_gpu() const { return most_on_a_gpu_; }
  int dependent() const { return dependent_; }
  int singletons() const { return singletons_; }
  // Jobs that ask for labels or tolerate taints, as a whole.
  int selective() const { return selective_jobs_; }
  int arrays() const { return arrays_; }
  // Times that somebody changed a Job, and that a Job began to be held.
  int updates() const { return CountTold("UPDATED"); }
  int held() const { return CountTold(kHeld); }
  // Generations of elastic gangs; those beyond their least, those short of their most, and those of
  // another size than the one before.
  int elastic() const { return elastic_; }
  int beyond_least() const { return beyond_least_; }
  int short_of_most() const { return short_of_most_; }
  int resized() const { return resized_; }
  // Parts of such generations that are there, and that are not.
  int parts_there() const { return parts_there_; }
  int parts_missing() const { return parts_missing_; }
  // Times that a gang gave up Tasks for another.
  int shrunk() const {
    const auto& events = harness_.events();
    return static_cast<int>(std::count_if(events.begin(), events.end(), [](const auto& event) {
      return event.reason() == "SHRUNK" && !event.has_task();
    }));
  }
  // Times that a gang was stopped to grow.
  int grown() const { return grown_; }
  // Times that a gang was stopped for a maintenance window.
  int evicted() const {
    const auto& events = harness_.events();
    return static_cast<int>(std::count_if(events.begin(), events.end(), [](const auto& event) {
      return event.reason() == "MAINTENANCE" && event.state() == "STOPPING" && !event.has_task();
    }));
  }
  // Times that a gang was stopped to stand elsewhere.
  int repartitioned() const {
    const auto& events = harness_.events();
    return static_cast<int>(std::count_if(events.begin(), events.end(), [](const auto& event) {
      return event.reason() == "REPARTITIONED" && !event.has_task();
    }));
  }
  int preemptions() const {
    int preemptions = 0;
    for (const auto& [uid, job] : harness_.jobs()) preemptions += job.state.preemptions();
    return preemptions;
  }
  // Jobs that ordered Nodes were nominated to, and those that were placed on them.
  int nominated() const { return static_cast<int>(nominated_.size()); }
  int orders_used() const { return static_cast<int>(used_orders_.size()); }
  const std::map<std::string, int>& faults() const { return faults_; }
  // Times that somebody changed a Queue, and Jobs that limits and rates were held against.
  int queue_changes() const { return queues_.has_value() ? queues_->changes() : 0; }
  const QueueChecks& queue_checks() const { return harness_.queue_checks(); }

  // In most worlds anybody may be ended for others at any time.
  static CoreConfig Config(uint64_t seed) {
    CoreConfig config;
    config.min_runtime = seed % 2 == 0 || seed % 8 == 3 ? absl::ZeroDuration() : absl::Seconds(20);
    config.min_grow_after = absl::Seconds(1);
    config.spare_for = absl::Seconds(1);
    config.return_within = absl::Minutes(1);
    // In most of those with GPUs in MIG mode.
    if (seed % 4 == 3 || seed % 16 == 6) {
      config.repartition_max_cost = absl::Hours(seed % 16 == 15 ? 0 : 1);
    }
    config.repartition_pause = absl::Seconds(seed % 8 == 3 ? 0 : 10);
    return config;
  }

 private:
  static constexpr int kSteps = 150;
  static constexpr int kNodes = 3;
  using JobSpec = capstan::scheduler::v1::JobSpec;
  using TaskEnd = capstan::type::v1::TaskEnd;

  FakeExecutor& AnyExecutor() { return *executors_[random_.Below(executors_.size())]; }

  // Somebody may be moved: most Jobs take little of a GPU each, so that there is somebody to move.
  bool scattered() const { return harness_.config().repartition_max_cost > absl::ZeroDuration(); }

  // Small parts of GPUs that come and go one by one, and now and then somebody who wants a whole
  // one.
  JobSpec ScatteredSpec() {
    static constexpr const char* kParts[] = {"1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"};
    JobSpec spec = CoreHarness::Spec(1, 50);
    *spec.mutable_fence_after() = ToProto(absl::Minutes(1));
    spec.mutable_retry()->set_max_restarts(5);
    auto& slice = *spec.mutable_task_groups(0)->mutable_resources()->mutable_mig();
    slice.set_model("H100-80GB");
    slice.set_profile(random_.OneIn(6) ? "7g.80gb" : kParts[random_.Below(4)]);
    return spec;
  }

  JobSpec AnySpec() {
    JobSpec spec = AnyPlainSpec();
    if (selective_) BeSelective(&spec);
    return spec;
  }

  // A Node without taints whose labels are as in the end meets whatever it asks for.
  void BeSelective(JobSpec* spec) {
    using capstan::scheduler::v1::NodeRequirement;
    const auto ask = [this](NodeRequirement* one) {
      switch (random_.Below(4)) {
        case 0:
          one->set_operator_(NodeRequirement::OPERATOR_IN);
          one->set_key("pool");
          one->add_values("a");
          if (random_.OneIn(3)) one->add_values("b");
          break;
        case 1:
          one->set_operator_(NodeRequirement::OPERATOR_NOT_IN);
          one->set_key("pool");
          one->add_values("b");
          break;
        case 2:
          one->set_operator_(NodeRequirement::OPERATOR_EXISTS);
          one->set_key("pool");
          break;
        default:
          one->set_operator_(NodeRequirement::OPERATOR_DOES_NOT_EXIST);
          one->set_key("spot");
          break;
      }
    };
    if (random_.OneIn(2)) ask(spec->add_node_requirements());
    for (auto& group : *spec->mutable_task_groups()) {
      if (random_.OneIn(4)) ask(group.add_node_requirements());
    }
    if (random_.OneIn(3)) {
      auto& toleration = *spec->add_tolerations();
      toleration.set_key(random_.OneIn(4) ? "" : "team");
      toleration.set_any_value(toleration.key().empty() || random_.OneIn(2));
      if (!toleration.any_value()) toleration.set_value("x");
    }
    selective_jobs_ += spec->node_requirements_size() + spec->tolerations_size() > 0 ? 1 : 0;
  }

  JobSpec AnyPlainSpec() {
    if (scattered() && !random_.OneIn(6)) return ScatteredSpec();
    JobSpec spec =
        CoreHarness::Spec(static_cast<int>(random_.Between(1, 5)), random_.Between(1, 4) * 500);
    spec.set_priority(static_cast<int>(random_.Between(-1, 1)));
    *spec.mutable_fence_after() = ToProto(absl::Minutes(random_.Between(1, 2)));
    spec.mutable_retry()->set_max_restarts(5);
    if (random_.OneIn(2)) {
      auto& workers = *spec.mutable_task_groups(0);
      workers.set_min_replicas(static_cast<int>(random_.Between(1, workers.replicas())));
      workers.set_replicas(workers.replicas() + static_cast<int>(random_.Between(0, 6)));
      if (workers.min_replicas() < workers.replicas() && random_.OneIn(calm_ ? 1 : 2)) {
        *spec.mutable_checkpoint_period() = ToProto(absl::Seconds(1));
        *spec.mutable_grow_after() = ToProto(absl::Seconds(3));
      }
    }
    if (random_.OneIn(4)) spec.add_clusters(random_.OneIn(2) ? "east" : "west");
    if (random_.OneIn(4))
      *spec.mutable_time_limit() = ToProto(absl::Minutes(random_.Between(1, 3)));
    if (random_.OneIn(3)) {
      *spec.add_task_groups() = CoreHarness::Spec(1, 300).task_groups(0);
      spec.mutable_task_groups(1)->set_name("server");
    }
    if (random_.OneIn(4)) {
      // Of as many the first rack holds at least.
      auto& workers = *spec.mutable_task_groups(0);
      const int held = std::min(MinReplicas(workers), 4);
      if (workers.min_replicas() == 0) {
        workers.set_replicas(held);
      } else {
        workers.set_min_replicas(held);
      }
      // In the east a rail has both racks, in the west each rack has its own.
      workers.mutable_topology()->set_required(random_.OneIn(3)
                                                   ? capstan::scheduler::v1::Topology::LEVEL_RAIL
                                                   : capstan::scheduler::v1::Topology::LEVEL_RACK);
      if (random_.OneIn(2)) {
        spec.mutable_topology()->set_required(capstan::scheduler::v1::Topology::LEVEL_ZONE);
      }
      ++grouped_;
    }
    if (random_.OneIn(4)) Slice(&spec);
    if (random_.OneIn(4)) PutInSections(&spec);
    if (with_mig_ && !random_.OneIn(4)) AskForMig(&spec);
    // Where somebody may be moved, instances are what is scarce.
    if (scattered()) {
      for (auto& group : *spec.mutable_task_groups()) {
        if (group.resources().has_mig()) group.mutable_resources()->set_cpu_millis(50);
      }
    }
    // Of those that are there; what has ended otherwise is refused.
    for (int64_t n = random_.OneIn(3) && jobs_ > 0 ? random_.Between(1, 2) : 0; n > 0; --n) {
      using capstan::scheduler::v1::JobDependency;
      JobDependency& after = *spec.add_after();
      after.set_job(absl::StrCat("projects/p/jobs/j", random_.Below(jobs_)));
      after.set_condition(static_cast<JobDependency::Condition>(random_.Between(1, 3)));
      ++dependent_;
    }
    if (random_.OneIn(5)) {
      spec.set_singleton(random_.OneIn(2) ? "one" : "other");
      ++singletons_;
    }
    if (random_.OneIn(5)) {
      spec.mutable_array()->set_size(static_cast<int>(random_.Between(1, 4)));
      spec.mutable_array()->set_max_parallel(static_cast<int>(random_.Between(0, 2)));
      ++arrays_;
      // After another one, if that is an array of the same size; else it is refused.
      if (spec.after_size() > 0 && random_.OneIn(2)) {
        spec.mutable_after(0)->set_condition(
            capstan::scheduler::v1::JobDependency::CONDITION_CORRESPONDING);
      }
    }
    return spec;
  }

  // Workers in twos on a Node each, of as many as the first rack holds.
  void Slice(JobSpec* spec) {
    using capstan::scheduler::v1::Topology;
    auto& workers = *spec->mutable_task_groups(0);
    const bool elastic = workers.min_replicas() > 0;
    const int least = MinReplicas(workers) <= 2 ? 2 : 4;
    workers.set_min_replicas(elastic ? least : 0);
    workers.set_replicas(elastic ? least + 2 * static_cast<int>(random_.Between(0, 3)) : least);
    if (random_.OneIn(2) && IsNarrower(Topology::LEVEL_RACK, workers.topology().required())) {
      auto& outer = *workers.add_slices();
      outer.set_level(Topology::LEVEL_RACK);
      outer.set_size(2);
    }
    auto& inner = *workers.add_slices();
    inner.set_level(Topology::LEVEL_NODE);
    inner.set_size(workers.slices_size() > 1 && random_.OneIn(2) ? 1 : 2);
    ++sliced_;
  }

  // For what an empty Cluster has: a Node of two GPUs holds two of the largest, and four in all.
  void AskForMig(JobSpec* spec) {
    static constexpr const char* kSmall[] = {"1g.10gb", "1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb"};
    static constexpr const char* kOnePerGpu[] = {"1g.10gb+me", "4g.40gb", "7g.80gb"};
    auto& workers = *spec->mutable_task_groups(0);
    auto& slice = *workers.mutable_resources()->mutable_mig();
    slice.set_model("H100-80GB");
    const bool is_small = random_.OneIn(2);
    slice.set_profile(is_small ? kSmall[random_.Below(5)] : kOnePerGpu[random_.Below(3)]);
    if (!is_small || spec->task_groups_size() < 2 || random_.OneIn(2)) return;
    auto& server = *spec->mutable_task_groups(1)->mutable_resources()->mutable_mig();
    server.set_model("H100-80GB");
    server.set_profile(kSmall[random_.Below(3)]);
  }

  // All in one, and the workers four deep.
  void PutInSections(JobSpec* spec) {
    using capstan::scheduler::v1::Topology;
    const char* const names[] = {"all", "replica", "stage", "cell"};
    for (int s = 0; s < 4; ++s) {
      auto& section = *spec->add_sections();
      section.set_name(names[s]);
      if (s > 0) section.set_parent(names[s - 1]);
    }
    auto& workers = *spec->mutable_task_groups(0);
    if (spec->topology().required() == Topology::LEVEL_UNSPECIFIED) {
      spec->mutable_sections(0)->mutable_topology()->set_required(Topology::LEVEL_ZONE);
    }
    if (const Topology::Level level = workers.topology().required();
        level == Topology::LEVEL_RACK || level == Topology::LEVEL_RAIL) {
      workers.clear_topology();
      spec->mutable_sections(2)->mutable_topology()->set_required(level);
    }
    workers.set_section("cell");
    if (spec->task_groups_size() > 1) spec->mutable_task_groups(1)->set_section("all");
    if (++sectioned_ % 2 == 0) AddParts(spec);
  }

  // It may be without one, and that without half of itself.
  void AddParts(JobSpec* spec) {
    using capstan::scheduler::v1::Topology;
    spec->set_min_sections(1);
    auto& whole = *spec->add_sections();
    whole.set_name("spare");
    whole.set_min_sections(1);
    if (IsNarrower(Topology::LEVEL_RACK, spec->topology().required())) {
      whole.mutable_topology()->set_required(Topology::LEVEL_RACK);
    }
    for (const char* const name : {"spare-a", "spare-b"}) {
      auto& half = *spec->add_sections();
      half.set_name(name);
      half.set_parent("spare");
      auto& group = *spec->add_task_groups();
      group = CoreHarness::Spec(2, 400).task_groups(0);
      group.set_name(name);
      group.set_section(name);
    }
  }

  void Give(const std::vector<Effect>& effects) {
    for (const ReplyJob& reply : Of<ReplyJob>(effects)) {
      if (reply.job.ok()) acknowledged_.insert(reply.job->uid());
    }
    for (auto& executor : executors_) executor->Take(effects);
  }

  void Pass(absl::Duration d) {
    Give(harness_.Advance(d));
    for (auto& executor : executors_) executor->Fence();
  }

  void Crash() {
    ++faults_["crash"];
    CreateJob create;
    create.call = harness_.next_call();
    create.project = "projects/p";
    create.uid = create.job_id = absl::StrCat("j", jobs_++);
    create.spec = AnySpec();
    create.spec.set_queue("queues/default");
    const Event event = random_.OneIn(2) ? Event(Tick{}) : Event(create);
    Give(harness_.CrashIn(event, random_.Below(4)));
    for (auto& executor : executors_) executor->Disconnect();
  }

  // A Node has other labels or taints from its next report on, which may come at once.
  void Retaint() {
    FakeExecutor& executor = AnyExecutor();
    const int node = static_cast<int>(random_.Below(kNodes));
    if (random_.OneIn(2)) {
      std::map<std::string, std::string> taints;
      if (random_.OneIn(2)) taints["team"] = random_.OneIn(2) ? "x" : "y";
      if (random_.OneIn(4)) taints["broken"] = "";
      executor.set_taints(node, taints);
    } else {
      auto& more = more_labels_[{&executor, node}];
      more.clear();
      if (!random_.OneIn(3)) more["pool"] = random_.OneIn(2) ? "a" : "b";
      if (random_.OneIn(3)) more["spot"] = "";
      SetLabels(&executor, node, "");
    }
    if (executor.connected() && executor.hears(executor.NodeName(node)) && !random_.OneIn(3)) {
      executor.ReportNode(node, false);
    }
  }

  void SetLabels(FakeExecutor* executor, int node, const std::string& order) {
    const bool east = executor == executors_.front().get();
    std::map<std::string, std::string> labels = {
        {"topology.kubernetes.io/zone", "z"},
        {"capstan.dev/rail", east || node < 2 ? "a" : "b"},
        {"capstan.dev/rack", node < 2 ? "first" : "second"}};
    if (!order.empty()) labels[kOrderLabel] = order;
    const auto more = more_labels_.find({executor, node});
    if (more != more_labels_.end()) labels.insert(more->second.begin(), more->second.end());
    executor->set_labels(node, std::move(labels));
  }

  // Somebody orders, a Node of an order comes, or one is deleted.
  void Order() {
    const auto& orders = harness_.core().model().capacity_orders;
    const std::string id = absl::StrCat("o", random_.Below(4));
    if (orders.count(id) == 0) {
      if (jobs_ == 0) return;
      CreateCapacityOrder create;
      create.call = harness_.next_call();
      create.order_id = id;
      create.order.set_cluster(random_.OneIn(2) ? "clusters/east" : "clusters/west");
      create.order.set_nodes(static_cast<int>(random_.Between(1, 3)));
      const std::string uid = absl::StrCat("j", random_.Below(jobs_));
      const JobEntry* job = harness_.jobs().Find(uid);
      if (job != nullptr && random_.OneIn(2)) {
        create.order.set_demand_class(DemandClassId(DemandNeed::Of(*job).key));
      } else {
        create.order.set_job(absl::StrCat("projects/p/jobs/", uid));
      }
      *create.order.mutable_expire_time() =
          ToProto(harness_.now().wall + absl::Minutes(random_.Between(1, 6)));
      Give(harness_.Apply(create));
    } else if (random_.OneIn(4)) {
      Give(harness_.Apply(DeleteCapacityOrder{harness_.next_call(), id}));
    } else {
      const int node = static_cast<int>(random_.Below(kNodes));
      // Of its Cluster, or now and then of the other.
      const bool east = orders.at(id).order().cluster() == "clusters/east";
      FakeExecutor& executor = random_.OneIn(8) ? AnyExecutor() : *executors_[east ? 0 : 1];
      SetLabels(&executor, node, random_.OneIn(4) ? "" : id);
      if (executor.connected() && executor.hears(executor.NodeName(node))) {
        executor.ReportNode(node, false);
      }
    }
  }

  // Nobody is placed on what is kept for another, before and after.
  void CheckKept() {
    const Model& model = harness_.core().model();
    std::map<NodeId, std::string> kept;
    for (const auto& [id, node] : model.nodes) {
      const std::string order = OrderOfNode(model, id, node);
      if (order.empty()) continue;
      const rec::CapacityOrderRecord& record = model.capacity_orders.at(order);
      if (!record.used() && !record.nominee_uid().empty()) kept[id] = record.nominee_uid();
    }
    for (const auto& [id, record] : model.capacity_orders) {
      if (!record.nominee_uid().empty()) nominated_.insert(record.nominee_uid());
      // An id may be another order's later.
      const std::string one = absl::StrCat(id, " ", record.order().create_time().seconds());
      if (record.used()) used_orders_.insert(one);
    }
    for (const auto& [uid, job] : model.jobs) {
      if (!job.live() || job.state.generation() <= placed_[uid]) continue;
      placed_[uid] = job.state.generation();
      for (const std::string& node : job.gang->nodes) {
        const NodeId id{job.gang->head.cluster(), node};
        const auto before = kept_.find(id);
        const auto now = kept.find(id);
        if (before == kept_.end() || now == kept.end()) continue;
        ASSERT_TRUE(before->second == uid || now->second == uid || before->second != now->second)
            << uid << " is placed on " << id.Name() << ", which is kept for " << now->second;
      }
    }
    kept_ = std::move(kept);
  }

  void EndSomething() {
    FakeExecutor& executor = AnyExecutor();
    std::vector<std::string> running;
    for (const auto& [key, task] : executor.tasks()) {
      if (task.running() && executor.hears(task.desired.node())) running.push_back(key);
    }
    if (running.empty()) return;
    static constexpr TaskEnd::Cause kCauses[] = {
        TaskEnd::CAUSE_EXITED,   TaskEnd::CAUSE_EXITED, TaskEnd::CAUSE_EXITED,
        TaskEnd::CAUSE_SIGNALED, TaskEnd::CAUSE_LOST,   TaskEnd::CAUSE_RENDEZVOUS_PORT_TAKEN};
    executor.End(running[random_.Below(running.size())], kCauses[random_.Below(6)]);
  }

  // Makes a maintenance window, or calls one off.
  void Maintain() {
    if (random_.OneIn(4) && windows_ > 0) {
      Give(harness_.Apply(DeleteMaintenanceWindow{harness_.next_call(),
                                                  random_.OneIn(2) ? "east" : "west",
                                                  absl::StrCat("w", random_.Below(windows_)), ""}));
      return;
    }
    CreateMaintenanceWindow create;
    create.call = harness_.next_call();
    create.cluster = random_.OneIn(2) ? "east" : "west";
    create.uid = create.window_id = absl::StrCat("w", windows_++);
    if (random_.OneIn(2)) {
      create.window.add_nodes(
          absl::StrCat("clusters/", create.cluster, "/nodes/n", random_.Below(kNodes)));
    } else if (random_.OneIn(2)) {
      (*create.window.mutable_node_labels())["capstan.dev/rack"] = "first";
    } else {
      create.window.set_all_nodes(true);
    }
    // Before the later ones some with a time limit are over.
    const absl::Time start =
        harness_.now().wall + absl::Seconds(random_.Between(0, random_.OneIn(2) ? 60 : 300));
    *create.window.mutable_start_time() = ToProto(start);
    *create.window.mutable_end_time() = ToProto(start + absl::Seconds(random_.Between(1, 40)));
    create.window.set_evict(!random_.OneIn(3));
    const std::vector<Effect> effects =
        random_.OneIn(6) ? harness_.CrashIn(create, random_.Below(4)) : harness_.Apply(create);
    Give(effects);
    // It is no longer the same leader.
    if (Of<ReplyMaintenanceWindow>(effects).empty()) {
      for (auto& executor : executors_) executor->Disconnect();
    }
  }

  int CountTold(const std::string& reason) const {
    const auto& events = harness_.events();
    return static_cast<int>(std::count_if(events.begin(), events.end(), [&](const auto& event) {
      return event.reason() == reason && !event.has_task();
    }));
  }

  // Somebody changes a Job, holds one, or releases it.
  void Update() {
    UpdateJob update;
    update.call = harness_.next_call();
    // One of the last, which may not have ended yet.
    const int job = jobs_ - 1 - static_cast<int>(random_.Below(std::min(jobs_, 8)));
    update.name = absl::StrCat("projects/p/jobs/j", job, random_.OneIn(8) ? "-0" : "");
    const uint64_t what = random_.Below(4);
    if (what == 0) update.change.set_priority(static_cast<int>(random_.Between(-2, 3)));
    if (what == 1) {
      *update.change.mutable_time_limit() = ToProto(
          random_.OneIn(4) ? absl::ZeroDuration()
                           : absl::Seconds(random_.Between(1, random_.OneIn(3) ? 10 : 300)));
    }
    if (what > 1) update.change.set_hold(random_.OneIn(2));
    const std::vector<Effect> effects =
        random_.OneIn(10) ? harness_.CrashIn(update, random_.Below(4)) : harness_.Apply(update);
    Give(effects);
    // It is no longer the same leader.
    if (Of<ReplyJob>(effects).empty()) {
      for (auto& executor : executors_) executor->Disconnect();
    }
  }

  // All Jobs that are held.
  void Release() {
    std::vector<std::string> held;
    for (const auto& [uid, job] : harness_.jobs()) {
      if (job.state.hold() && !job.final()) held.push_back(job.spec.name());
    }
    for (const std::string& name : held) {
      UpdateJob release;
      release.call = harness_.next_call();
      release.name = name;
      release.change.set_hold(false);
      Give(harness_.Apply(release));
    }
  }

  void Step() {
    if (selective_ && random_.OneIn(6)) return Retaint();
    if (updates_ && jobs_ > 0 && random_.OneIn(8)) return Update();
    FakeExecutor& executor = AnyExecutor();
    switch (random_.Below(with_windows_ ? 15 : 14)) {
      case 0:
      case 1: {
        if (calm_ && !scattered() && random_.OneIn(2)) break;
        const std::string id = absl::StrCat("j", jobs_++);
        JobSpec spec = AnySpec();
        if (queues_.has_value()) spec.set_queue(queues_->Any());
        Give(harness_.Submit(id, std::move(spec)));
        if (!scattered()) break;
        for (auto& other : executors_) other->PrepareAll();
        for (auto& other : executors_) other->RunAll();
        break;
      }
      case 2:
        if (jobs_ == 0 || !random_.OneIn(3)) break;
        Give(harness_.Apply(CancelJob{
            harness_.next_call(), absl::StrCat("projects/p/jobs/j", random_.Below(jobs_)), ""}));
        break;
      case 3:
      case 4:
        executor.PrepareAll();
        if (calm_) executor.RunAll();
        break;
      case 5:
      case 6:
        executor.RunAll();
        break;
      case 7:
      case 8:
        EndSomething();
        break;
      case 9:
        if (executor.connected()) {
          if (!random_.OneIn(3)) break;
          ++faults_["disconnect"];
          executor.Disconnect();
        } else {
          executor.Connect();
        }
        break;
      case 10: {
        const int node = static_cast<int>(random_.Below(kNodes));
        const bool silent = executor.hears(executor.NodeName(node)) && random_.OneIn(3);
        if (silent) ++faults_["silent node"];
        if (executor.connected()) executor.ReportNode(node, silent);
        break;
      }
      case 11:
        if (random_.OneIn(4)) Crash();
        break;
      case 12:
        Order();
        break;
      case 13:
        if (with_windows_) {
          Maintain();
          break;
        }
        [[fallthrough]];
      default:
        for (auto& other : executors_) other->Renew();
        Pass(absl::Seconds(random_.Between(1, random_.OneIn(5) ? 90 : 10)));
        break;
    }
  }

  void Check() {
    CheckKept();
    CheckInstances();
    for (const std::string& uid : acknowledged_) {
      ASSERT_TRUE(harness_.core().model().FindJob(uid) != nullptr) << uid << " is lost";
    }
    std::map<std::string, int64_t> alive;
    for (auto& executor : executors_) {
      for (const auto& [key, task] : executor->tasks()) {
        if (!task.alive(harness_.now().boot)) continue;
        const int64_t generation = task.desired.key().generation();
        auto [it, added] = alive.emplace(task.desired.key().job_uid(), generation);
        ASSERT_EQ(it->second, generation) << "two live generations: " << key;
      }
    }
    for (const auto& [uid, job] : harness_.core().model().jobs) {
      if (job.state.generation() > seen_[uid]) {
        seen_[uid] = job.state.generation();
        ++generations_;
        if (job.gang.has_value() && !job.gang->mig.empty()) ++with_instances_;
        if (job.gang.has_value()) SawSize(uid, static_cast<int>(job.gang->nodes.size()), job);
      }
    }
  }

  // What agents were told to make for Tasks that run: on no GPU may two overlap.
  void CheckInstances() {
    std::map<std::string, std::vector<mig::Position>> gpus;
    std::map<std::string, std::set<std::string>> jobs;
    std::map<std::string, int> models;
    for (const auto& executor : executors_) {
      for (const auto& [key, task] : executor->tasks()) {
        const auto& launch = task.desired.launch();
        if (!task.alive(harness_.now().boot) || !launch.resources().has_mig()) continue;
        ASSERT_TRUE(launch.has_mig_instance()) << key;
        const auto& instance = launch.mig_instance();
        ASSERT_EQ(instance.profile(), launch.resources().mig().profile()) << key;
        const std::string gpu = absl::StrCat(executor.get() == executors_[0].get(),
                                             task.desired.node(), "/", instance.gpu());
        const int model = mig::ModelIndex(instance.model());
        gpus[gpu].push_back(
            {*mig::ParseProfile(mig::DeviceModels()[model], instance.profile()), instance.start()});
        jobs[gpu].insert(task.desired.key().job_uid());
        models[gpu] = model;
      }
    }
    for (const auto& [gpu, positions] : gpus) {
      const auto state = mig::Layouts::Of(models[gpu]).table().FromPositions(positions);
      ASSERT_TRUE(state.ok()) << gpu << ": " << state.status();
      most_on_a_gpu_ = std::max(most_on_a_gpu_, static_cast<int>(jobs[gpu].size()));
    }
  }

  void SawStep(const SchedulerCore& core, const Event&, Now now, const scheduler::Step* step,
               const std::map<std::string, std::string>&) {
    if (step == nullptr) return;
    for (const Write& write : step->persist) {
      for (const auto& event : write.events) {
        if (event.reason() != "GROWN" || event.has_task()) continue;
        ++grown_;
        CheckGrowth(core.model(), *core.model().FindJob(event.job_uid()), now);
      }
    }
  }

  // It has run for as long as it must, and nobody waits who could have had what it gets.
  void CheckGrowth(const Model& model, const JobEntry& job, Now now) {
    const JobSpec& spec = job.spec.spec();
    EXPECT_GE(now.wall - ToTime(job.state.start_time()), ToDuration(spec.grow_after()));
    std::map<std::string, NodeCapacity> gets;
    for (const auto& addition : job.gang->head.additions()) {
      NodeCapacity& node = gets[addition.node()];
      node.id = {job.gang->head.cluster(), addition.node()};
      node.eligible = node.avoided = true;
      node.reported = &model.nodes.at(node.id).observation();
      node.topology = NodeTopology::From(node.reported->labels());
      node.free.Add(Amounts::From(spec.task_groups(addition.group()).resources()),
                    addition.count());
    }
    std::vector<NodeCapacity> nodes;
    for (auto& [name, node] : gets) nodes.push_back(std::move(node));
    for (const auto& [uid, other] : model.jobs) {
      const std::string& reason = other.state.reason();
      if (other.state.state() != capstan::scheduler::v1::Job::STATE_QUEUED ||
          (reason != "INSUFFICIENT_RESOURCES" && reason != "WAITING" && reason != "PREEMPTED" &&
           reason != "MAKING_ROOM")) {
        continue;
      }
      EXPECT_FALSE(TightPlacer().Begin(nodes)->Place(GangRequest::From(other)).has_value())
          << job.uid() << " gets what " << uid << " waits for";
    }
  }

  void SawSize(const std::string& uid, int tasks, const JobEntry& job) {
    if (!IsElastic(job.spec.spec())) return;
    ++elastic_;
    if (tasks > MinTaskCount(job.spec.spec())) ++beyond_least_;
    if (tasks < MaxTaskCount(job.spec.spec())) ++short_of_most_;
    for (const OptionalPart& part : OptionalParts(job.spec.spec())) {
      ++(SizeOf(job, part.groups.front()) > 0 ? parts_there_ : parts_missing_);
    }
    const auto [before, first] = sizes_.emplace(uid, tasks);
    if (!first && before->second != tasks) ++resized_;
    before->second = tasks;
  }

  void Heal() {
    Release();
    for (auto& executor : executors_) {
      for (int node = 0; selective_ && node < kNodes; ++node) {
        more_labels_[{executor.get(), node}] = {{"pool", "a"}};
        SetLabels(executor.get(), node, "");
        executor->set_taints(node, {});
      }
      if (!executor->connected()) executor->Connect();
      for (int node = 0; node < kNodes; ++node) executor->ReportNode(node, false);
    }
    for (int i = 0; i < 3000 && !::testing::Test::HasFailure(); ++i) {
      bool all = true;
      for (const auto& [uid, job] : harness_.core().model().jobs) all = all && job.final();
      if (all) return;
      for (auto& executor : executors_) {
        executor->PrepareAll();
        executor->RunAll();
        if (calm_) Pass(absl::Seconds(5));
        for (const std::string& key : executor->Keys()) {
          auto it = executor->tasks().find(key);
          if (it != executor->tasks().end() && it->second.running()) {
            executor->End(key, TaskEnd::CAUSE_EXITED);
          }
        }
        executor->Renew();
      }
      Pass(absl::Seconds(5));
      Check();
    }
    for (const auto& [uid, job] : harness_.core().model().jobs) {
      EXPECT_TRUE(job.final()) << uid << " is stuck: " << job.state.ShortDebugString() << " "
                               << (job.gang ? job.gang->head.ShortDebugString() : "");
    }
  }

  int grown_ = 0;
  Random random_;
  const bool with_windows_;
  // What starts runs for a while, and few Jobs come, unless it is scattered(): there is room to
  // grow into.
  const bool calm_;
  // Nodes have GPUs in MIG mode, and many Jobs ask for a part of one.
  const bool with_mig_;
  // Labels and taints of Nodes come and go, and many Jobs ask for some.
  const bool selective_;
  // People change, hold and release Jobs.
  const bool updates_;
  CoreHarness harness_;
  std::vector<std::unique_ptr<FakeExecutor>> executors_;
  // In some worlds Jobs go to several, which change.
  absl::optional<RandomQueues> queues_;
  std::set<std::string> acknowledged_;
  std::map<std::string, int64_t> seen_;
  std::map<std::string, int> faults_;
  int jobs_ = 0;
  int windows_ = 0;
  int generations_ = 0;
  int grouped_ = 0;
  int sliced_ = 0;
  int sectioned_ = 0;
  int with_instances_ = 0;
  int most_on_a_gpu_ = 0;
  int dependent_ = 0;
  int singletons_ = 0;
  int arrays_ = 0;
  int selective_jobs_ = 0;
  // Labels beside those of every world.
  std::map<std::pair<const FakeExecutor*, int>, std::map<std::string, std::string>> more_labels_;
  // As of the last check: who which Nodes are kept for, and generations placed.
  std::map<NodeId, std::string> kept_;
  std::map<std::string, int64_t> placed_;
  std::set<std::string> nominated_;
  std::set<std::string> used_orders_;
  std::map<std::string, int> sizes_;
  int elastic_ = 0;
  int beyond_least_ = 0;
  int short_of_most_ = 0;
  int parts_there_ = 0;
  int parts_missing_ = 0;
  int resized_ = 0;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_RANDOM_WORLD_H_
