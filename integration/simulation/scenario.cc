#include "integration/simulation/scenario.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "integration/simulation/agent_actor.h"
#include "integration/simulation/buyers.h"
#include "integration/simulation/credentials_actor.h"
#include "integration/simulation/dataset_owners.h"
#include "integration/simulation/dataset_witness.h"
#include "integration/simulation/executor_actor.h"
#include "integration/simulation/fleet.h"
#include "integration/simulation/health_actor.h"
#include "integration/simulation/job_owners.h"
#include "integration/simulation/loader_actor.h"
#include "integration/simulation/machine.h"
#include "integration/simulation/maintainers.h"
#include "integration/simulation/mig_witness.h"
#include "integration/simulation/network.h"
#include "integration/simulation/operators.h"
#include "integration/simulation/people.h"
#include "integration/simulation/placement_witness.h"
#include "integration/simulation/process.h"
#include "integration/simulation/queue_owners.h"
#include "integration/simulation/queue_witness.h"
#include "integration/simulation/remote_store.h"
#include "integration/simulation/scheduler_actor.h"
#include "integration/simulation/subscriber_actor.h"
#include "integration/simulation/telemetry_actor.h"
#include "integration/simulation/witness.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/type/v1/task.pb.h"

namespace capstan::simulation {
namespace {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobDependency;
using capstan::scheduler::v1::JobSpec;
using capstan::scheduler::v1::NodeRequirement;
using capstan::scheduler::v1::RetryRule;
using capstan::scheduler::v1::TaskGroup;

// Owners of Jobs act in one seed of so many, and not in the first. All draw on the same random
// numbers, and what is planted (mutants_test) has to be seen soon: most histories go on without them.
constexpr uint64_t kSeedsOfJobOwners = 3;
// In one seed of so many Jobs have terms that others have not: labels of Nodes, elements that wait
// for elements, a Queue that keeps something to itself and Jobs that are not ended for others.
constexpr uint64_t kSeedsOfTerms = 4;

FleetConfig FleetOf(const ScenarioConfig& config) {
  FleetConfig fleet;
  fleet.seed = config.seed;
  fleet.clusters = config.clusters;
  fleet.nodes_per_cluster = config.nodes_per_cluster;
  fleet.cluster_manager = true;
  fleet.mig_gpus = true;
  fleet.subscribers = true;
  fleet.print_log = config.print_log;
  fleet.mutants = config.mutants;
  return fleet;
}

class Scenario {
 public:
  explicit Scenario(const ScenarioConfig& config)
      : config_(config), fleet_(FleetOf(config)), world_(fleet_.world()) {}
  Outcome Run();

 private:
  struct PlannedJob {
    std::shared_ptr<SubmittedJob> job;
    bool is_cancelled = false;
    // Comes after this one, and is submitted once this one is acknowledged.
    std::shared_ptr<const PlannedJob> next;
  };

  bool HasTerms() const { return config_.faults && config_.seed % kSeedsOfTerms == 3; }
  void PlanJobs();
  // Of the Job of that number; draws no random numbers.
  static void AddTerms(int number, capstan::scheduler::v1::JobSpec* spec);
  void SubmitLater(const PlannedJob& planned, absl::Duration delay);
  void AddRetryRules(capstan::scheduler::v1::JobSpec* spec);
  void AskForDatasets(capstan::scheduler::v1::JobSpec* spec);
  // Some of them, as versions that are known when the Job is submitted.
  void ChooseVersions(capstan::scheduler::v1::JobSpec* spec);
  // Each Task of the first group, for what an empty Cluster has.
  void AskForMig(capstan::scheduler::v1::JobSpec* spec);
  void PlanFault();
  void FireFault();
  // The loader, while it brings data.
  void PlanLoaderKill();
  enum class DiskTrouble { kFull, kSlow, kFailing };
  void TroubleDisk(DiskTrouble trouble, absl::Duration how_long);
  // The loader, or the cluster manager, from some of those that it talks with.
  void CutOffLoaderOrHealth(absl::Duration how_long);
  // One way is either.
  void CutFor(const std::string& a, const std::string& b, bool both, absl::Duration how_long);
  void StepClock();
  absl::Duration HowLong();
  size_t BusyMachine();
  const CredentialsActor& AnyCredentials() {
    return *fleet_.credentials()[world_.random().Below(fleet_.credentials().size())];
  }
  // An agent on a machine where a shim is stopped. Each of the two ends a Task at its deadline if
  // the other cannot; with both gone nobody does, and the design does not promise otherwise.
  bool IsLastWatcher(const Process& process) const;

  const ScenarioConfig config_;
  Fleet fleet_;
  World& world_;
};

void Scenario::PlanJobs() {
  std::vector<PlannedJob> planned;
  for (int i = 0; i < config_.jobs; ++i) {
    auto job = std::make_shared<SubmittedJob>();
    job->uid = world_.random().Uuid4();
    job->request_id = world_.random().Uuid4();
    const auto replicas = static_cast<int32_t>(world_.random().Between(int64_t{1}, int64_t{5}));
    job->spec = Fleet::Spec(replicas, absl::Minutes(1));
    if (config_.standing) {
      job->spec.set_priority(
          static_cast<int32_t>(world_.random().Between(int64_t{-1}, int64_t{1})));
      if (world_.random().OneIn(5)) {
        *job->spec.mutable_time_limit() =
            ToProto(world_.random().Between(absl::Minutes(1), absl::Minutes(4)));
      }
      if (world_.random().OneIn(4)) {
        capstan::scheduler::v1::TaskGroup beside = job->spec.task_groups(0);
        beside.set_name("s");
        beside.set_replicas(1);
        capstan::scheduler::v1::TaskGroup& together = *job->spec.mutable_task_groups(0);
        together.set_replicas(std::min(replicas, 3));
        together.mutable_topology()->set_required(capstan::scheduler::v1::Topology::LEVEL_NODE);
        *job->spec.add_task_groups() = std::move(beside);
      }
      if (i % 8 == 6) {
        // In twos on a Node each, in a section of a section.
        capstan::scheduler::v1::TaskGroup& pairs = *job->spec.mutable_task_groups(0);
        pairs.clear_topology();
        pairs.set_replicas(replicas < 3 ? 2 : 4);
        capstan::scheduler::v1::TaskSlice& slice = *pairs.add_slices();
        slice.set_level(capstan::scheduler::v1::Topology::LEVEL_NODE);
        slice.set_size(2);
        job->spec.add_sections()->set_name("outer");
        job->spec.add_sections()->set_name("inner");
        job->spec.mutable_sections(1)->set_parent("outer");
        pairs.set_section("inner");
        // And a section that it may be without.
        capstan::scheduler::v1::TaskGroup beside =
            Fleet::Spec(replicas, absl::Minutes(1)).task_groups(0);
        beside.set_name("beside");
        beside.set_section("spare");
        *job->spec.add_task_groups() = std::move(beside);
        job->spec.add_sections()->set_name("spare");
        job->spec.set_min_sections(1);
        *job->spec.mutable_checkpoint_period() = ToProto(absl::Seconds(10));
        *job->spec.mutable_grow_after() = ToProto(absl::Minutes(1));
      }
      if (i % 8 == 3) {
        job->spec.mutable_task_groups(0)->set_replicas(1);
        job->spec.mutable_array()->set_size(3);
        job->spec.mutable_array()->set_max_parallel(2);
      }
      if (i % 8 == 5) job->spec.set_singleton("one");
      if (i % 3 == 1) {
        capstan::scheduler::v1::TaskGroup& elastic = *job->spec.mutable_task_groups(0);
        const int step = elastic.slices().empty() ? 1 : elastic.slices(0).size();
        elastic.set_min_replicas(std::max(elastic.replicas() / 2 / step, 1) * step);
        if (elastic.min_replicas() < elastic.replicas()) {
          *job->spec.mutable_checkpoint_period() = ToProto(absl::Seconds(10));
          *job->spec.mutable_grow_after() = ToProto(absl::Minutes(1));
        }
      }
    }
    // May be over before a window begins.
    if (!config_.standing && world_.random().OneIn(4)) {
      *job->spec.mutable_time_limit() =
          ToProto(world_.random().Between(absl::Minutes(2), absl::Minutes(4)));
    }
    if (world_.random().OneIn(3)) AskForMig(&job->spec);
    if (i % 2 == 0) AskForDatasets(&job->spec);
    const std::vector<std::string>& queues = QueueOwners::Leaves();
    if (config_.faults) job->spec.set_queue(queues[world_.random().Below(queues.size())]);
    if (world_.random().OneIn(2)) AddRetryRules(&job->spec);
    if (HasTerms()) AddTerms(i, &job->spec);
    const bool is_cancelled = world_.random().OneIn(8);
    if (i % 6 == 4) {
      const JobDependency::Condition conditions[] = {JobDependency::CONDITION_SUCCEEDED,
                                                     JobDependency::CONDITION_ENDED,
                                                     JobDependency::CONDITION_NOT_SUCCEEDED};
      job->spec.add_after()->set_condition(conditions[world_.random().Below(3)]);
      const JobSpec& before = planned.back().job->spec;
      if (HasTerms() && before.has_array()) {
        job->spec.mutable_array()->set_size(before.array().size());
        job->spec.mutable_after(0)->set_condition(JobDependency::CONDITION_CORRESPONDING);
      }
      planned.back().next = std::make_shared<PlannedJob>(PlannedJob{job, is_cancelled, nullptr});
    } else {
      planned.push_back({job, is_cancelled, nullptr});
    }
  }
  for (const PlannedJob& job : planned) {
    SubmitLater(job, world_.random().Between(absl::Seconds(1), config_.trouble * 3 / 4));
  }
}

void Scenario::AddTerms(int number, JobSpec* spec) {
  if (spec->queue() == QueueOwners::kService && number % 2 == 0) {
    spec->set_preemption(JobSpec::PREEMPTION_NEVER);
  }
  // Of a Cluster's three Nodes two are in row a, and not all GPUs are to be had in each row.
  const TaskGroup& first = spec->task_groups(0);
  if (first.resources().has_mig() || !spec->sections().empty()) return;
  if (number % 5 == 2) {
    NodeRequirement& row = *spec->add_node_requirements();
    row.set_key(Maintainers::kRowLabel);
    row.set_operator_(NodeRequirement::OPERATOR_IN);
    row.add_values("a");
  }
  if (number % 5 == 3 && first.replicas() <= 4) {
    NodeRequirement& row = *spec->mutable_task_groups(0)->add_node_requirements();
    row.set_key(Maintainers::kRowLabel);
    row.set_operator_(NodeRequirement::OPERATOR_NOT_IN);
    row.add_values("a");
  }
}

void Scenario::SubmitLater(const PlannedJob& planned, absl::Duration delay) {
  world_.After(delay, [this, planned] {
    ChooseVersions(&planned.job->spec);
    fleet_.Submit(planned.job, [this, planned](const Job& made) {
      Random& random = world_.random();
      if (planned.is_cancelled) {
        world_.After(random.Between(absl::Seconds(1), absl::Minutes(3)),
                     [this, name = made.name()] { fleet_.Cancel(name); });
      }
      if (planned.next == nullptr) return;
      planned.next->job->spec.mutable_after(0)->set_job(made.name());
      SubmitLater(*planned.next, random.Between(absl::Seconds(1), absl::Minutes(1)));
    });
  });
}

void Scenario::AddRetryRules(capstan::scheduler::v1::JobSpec* spec) {
  // As a program of a Machine ends that has had enough, ...
  RetryRule& bad_luck = *spec->mutable_retry()->add_rules();
  bad_luck.add_exit_codes(1);
  bad_luck.set_action(RetryRule::ACTION_RESTART_UNCOUNTED);
  *bad_luck.mutable_avoid_node_for() = ToProto(absl::Seconds(30));
  // ... and one whose checkpoint is not taken.
  RetryRule& replaced = *spec->mutable_retry()->add_rules();
  replaced.add_exit_codes(3);
  replaced.set_action(world_.random().OneIn(2) ? RetryRule::ACTION_FAIL
                                               : RetryRule::ACTION_RESTART);
}

void Scenario::AskForDatasets(capstan::scheduler::v1::JobSpec* spec) {
  DatasetOwners& owners = fleet_.dataset_owners();
  const std::string first = owners.AnyDataset();
  spec->add_datasets()->set_dataset(first);
  if (!world_.random().OneIn(3)) return;
  const std::string second = owners.AnyDataset();
  if (second != first) spec->add_datasets()->set_dataset(second);
}

void Scenario::ChooseVersions(capstan::scheduler::v1::JobSpec* spec) {
  for (capstan::type::v1::DatasetMount& mount : *spec->mutable_datasets()) {
    if (!world_.random().OneIn(3)) continue;
    mount.set_version(fleet_.dataset_owners().NewestVersion(mount.dataset()));
  }
}

void Scenario::AskForMig(capstan::scheduler::v1::JobSpec* spec) {
  capstan::scheduler::v1::TaskGroup& group = *spec->mutable_task_groups(0);
  capstan::type::v1::MigSlice& slice = *group.mutable_resources()->mutable_mig();
  const bool apart = group.topology().required() == 0 && group.slices().empty();
  std::vector<std::string> profiles = {"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb"};
  if (!apart) profiles.pop_back();
  slice.set_model("H100-80GB");
  if (apart && group.replicas() <= 2) {
    if (world_.random().OneIn(4)) {
      slice.set_model("A30-24GB");
      profiles = {"1g.6gb", "2g.12gb"};
    } else {
      profiles.insert(profiles.end(), {"4g.40gb", "7g.80gb"});
    }
  }
  slice.set_profile(profiles[world_.random().Below(profiles.size())]);
}

// Mostly short; some longer than fence_after and its margin together.
absl::Duration Scenario::HowLong() {
  Random& random = world_.random();
  switch (random.Below(5)) {
    case 0:
    case 1:
      return random.Between(absl::Milliseconds(100), absl::Seconds(5));
    case 2:
      return random.Between(absl::Seconds(5), absl::Seconds(40));
    case 3:
      return random.Between(absl::Seconds(40), absl::Seconds(120));
    default:
      return random.Between(absl::Seconds(120), absl::Seconds(240));
  }
}

void Scenario::PlanFault() {
  world_.After(world_.random().Between(absl::Seconds(2), absl::Seconds(14)), [this] {
    if (world_.now() >= config_.trouble) return;
    FireFault();
    PlanFault();
  });
}

void Scenario::PlanLoaderKill() {
  world_.After(world_.random().Between(absl::Seconds(5), absl::Seconds(60)), [this] {
    if (world_.now() >= config_.trouble) return;
    PlanLoaderKill();
    LoaderActor& loader = fleet_.loader();
    if (!loader.up() || !loader.is_loading() || !world_.random().OneIn(2)) return;
    world_.Fault("loader killed while it loads");
    loader.Crash();
    world_.After(world_.random().Between(absl::Milliseconds(100), absl::Seconds(10)),
                 [&loader] { loader.Start(); });
  });
}

void Scenario::FireFault() {
  Random& random = world_.random();
  Process* process = fleet_.processes()[random.Below(fleet_.processes().size())];
  const absl::Duration how_long = HowLong();
  switch (random.Below(24)) {
    case 0:
    case 1:
      if (IsLastWatcher(*process)) return;
      world_.Fault("crash");
      process->Crash();
      world_.After(how_long, [process] { process->Start(); });
      return;
    case 2:
      if (IsLastWatcher(*process)) return;
      world_.Fault("stop");
      process->Stop();
      world_.After(how_long, [process] { process->Continue(); });
      return;
    case 3: {
      // A Node from its executor, or an executor from the schedulers.
      world_.Fault("partition");
      const size_t i = random.Below(fleet_.agents().size());
      fleet_.CutFor(fleet_.agents()[i]->name(), fleet_.executor_of(i)->name(), true, how_long);
      return;
    }
    case 4: {
      world_.Fault("partition");
      const std::string& executor =
          fleet_.executors()[random.Below(fleet_.executors().size())]->name();
      for (const auto& scheduler : fleet_.schedulers()) {
        fleet_.CutFor(executor, scheduler->name(), true, how_long);
      }
      return;
    }
    case 5: {
      world_.Fault("partition");
      if (random.OneIn(2)) {
        fleet_.CutFor(AnyCredentials().name(), StoreServer::kName, random.OneIn(2), how_long);
        return;
      }
      const std::string& scheduler =
          fleet_.schedulers()[random.Below(fleet_.schedulers().size())]->name();
      fleet_.CutFor(scheduler, SharedStore::kName, true, how_long);
      return;
    }
    case 6: {
      world_.Fault("partition one way");
      const size_t i = random.Below(fleet_.agents().size());
      const std::string& executor = fleet_.executor_of(i)->name();
      if (random.OneIn(2)) {
        fleet_.CutFor(fleet_.agents()[i]->name(), executor, false, how_long);
      } else {
        fleet_.CutFor(executor, fleet_.agents()[i]->name(), false, how_long);
      }
      return;
    }
    case 7: {
      world_.Fault("partition one way");
      const std::string& scheduler =
          fleet_.schedulers()[random.Below(fleet_.schedulers().size())]->name();
      const std::string& executor =
          fleet_.executors()[random.Below(fleet_.executors().size())]->name();
      if (random.OneIn(2)) {
        fleet_.CutFor(scheduler, executor, false, how_long);
      } else {
        fleet_.CutFor(executor, scheduler, false, how_long);
      }
      return;
    }
    case 8:
      // Messages take long, overtake each other (those of different streams and calls), and calls
      // come twice.
      world_.Fault("delay");
      fleet_.network().SetSlowest(random.Between(absl::Milliseconds(200), absl::Seconds(8)));
      fleet_.network().SetDoubling(true);
      world_.After(how_long, [this] {
        fleet_.network().SetSlowest(Network::kSlowest);
        fleet_.network().SetDoubling(false);
      });
      return;
    case 9: {
      const size_t i = random.Below(fleet_.machines().size());
      if (!random.OneIn(2)) return;
      world_.Fault("reboot");
      world_.Log(fleet_.machines()[i]->name(), "reboots");
      fleet_.agents()[i]->Crash();
      if (random.OneIn(2)) {
        // It is taken out of the scheduler's list, too, until it reports again.
        const std::string node = absl::StrCat("clusters/c", i / config_.nodes_per_cluster,
                                              "/nodes/", fleet_.machines()[i]->name());
        fleet_.health().Hide(node);
        world_.After(how_long, [this, node] { fleet_.health().Show(node); });
      }
      fleet_.machines()[i]->Reboot();
      world_.After(how_long, [this, i] { fleet_.agents()[i]->Start(); });
      return;
    }
    case 10: {
      if (!random.OneIn(2)) return;
      world_.Fault("executor store lost");
      ExecutorActor* executor = fleet_.executors()[random.Below(fleet_.executors().size())].get();
      executor->Crash();
      executor->LoseStore();
      world_.After(how_long, [executor] { executor->Start(); });
      return;
    }
    case 18: {
      world_.Fault("partition");
      if (random.OneIn(3)) {
        // A reader is cut off, or its word is not heard.
        fleet_.CutFor(fleet_.subscribers()[random.Below(fleet_.subscribers().size())]->name(),
                      fleet_.telemetry().name(), random.OneIn(2), how_long);
        return;
      }
      if (random.OneIn(2)) {
        const size_t i = random.Below(fleet_.agents().size());
        fleet_.CutFor(fleet_.agents()[i]->name(), AnyCredentials().name(), true, how_long);
        return;
      }
      // What telemetry has taken is often not heard.
      for (const auto& scheduler : fleet_.schedulers()) {
        fleet_.CutFor(fleet_.telemetry().name(), scheduler->name(), false, how_long);
      }
      return;
    }
    case 14:
    case 15:
      return TroubleDisk(DiskTrouble::kFull, how_long);
    case 16:
      return TroubleDisk(DiskTrouble::kSlow, how_long);
    case 20:
      return TroubleDisk(DiskTrouble::kFailing, how_long);
    case 21:
      return CutOffLoaderOrHealth(how_long);
    case 22: {
      world_.Fault("slow peer");
      world_.Log(process->name(),
                 absl::StrCat("is slow to reach for ", absl::FormatDuration(how_long)));
      fleet_.network().SetSlowest(process->name(),
                                  random.Between(absl::Milliseconds(500), absl::Seconds(10)));
      world_.After(how_long, [this, process] {
        fleet_.network().SetSlowest(process->name(), absl::ZeroDuration());
      });
      return;
    }
    case 23:
      // Counted where something is overtaken.
      world_.Log("network", "mixes up calls");
      fleet_.network().SetReordering(true);
      world_.After(how_long, [this] { fleet_.network().SetReordering(false); });
      return;
    case 17:
      return StepClock();
    case 11:
      if (fleet_.machines()[BusyMachine()]->KillShim()) world_.Fault("shim kill");
      return;
    case 12:
    case 13: {
      const size_t i = BusyMachine();
      const AgentActor& agent = *fleet_.agents()[i];
      if (!agent.up() || agent.stopped() || agent.disk().troubled()) return;
      if (fleet_.machines()[i]->StopShim(how_long)) world_.Fault("shim stop");
      return;
    }
    default:
      if (fleet_.machines()[BusyMachine()]->KillProgram()) world_.Fault("program kill");
  }
}

void Scenario::CutFor(const std::string& a, const std::string& b, bool both,
                      absl::Duration how_long) {
  const bool from_a = both || world_.random().OneIn(2);
  fleet_.CutFor(from_a ? a : b, from_a ? b : a, both, how_long);
}

void Scenario::CutOffLoaderOrHealth(absl::Duration how_long) {
  Random& random = world_.random();
  const bool both = random.OneIn(2);
  const bool of_loader = random.OneIn(2);
  world_.Fault(
      absl::StrCat(of_loader ? "loader" : "cluster manager", " cut off", both ? "" : " one way"));
  const std::string& name = of_loader ? fleet_.loader().name() : fleet_.health().name();
  if (of_loader && random.OneIn(2)) {
    // From a few Nodes, of one Cluster mostly.
    const size_t first = random.Below(fleet_.agents().size());
    for (size_t i = first; i < std::min(first + 3, fleet_.agents().size()); ++i) {
      CutFor(fleet_.agents()[i]->name(), name, both, how_long);
    }
    return;
  }
  for (const auto& scheduler : fleet_.schedulers()) {
    CutFor(name, scheduler->name(), both, how_long);
  }
}

void Scenario::TroubleDisk(DiskTrouble trouble, absl::Duration how_long) {
  Random& random = world_.random();
  const Fleet::OwnedDisk& owned = fleet_.disks()[random.Below(fleet_.disks().size())];
  if (owned.process != nullptr && IsLastWatcher(*owned.process)) return;
  const auto log = [this, &owned, how_long](absl::string_view what) {
    world_.Log(owned.name,
               absl::StrCat("has a ", what, " disk for ", absl::FormatDuration(how_long)));
  };
  switch (trouble) {
    case DiskTrouble::kFull:
      world_.Fault("disk full");
      log("full");
      owned.disk->full = true;
      world_.After(how_long, [disk = owned.disk] { disk->full = false; });
      return;
    case DiskTrouble::kSlow:
      world_.Fault("slow disk");
      log("slow");
      owned.disk->slowest = random.Between(absl::Milliseconds(200), absl::Seconds(3));
      world_.After(how_long, [disk = owned.disk] { disk->slowest = absl::ZeroDuration(); });
      return;
    case DiskTrouble::kFailing:
      // Counted where a commit fails by it. Somebody sees to it, and starts who has died of it.
      log("failing");
      owned.disk->failing = true;
      world_.After(how_long, [disk = owned.disk, process = owned.process] {
        disk->failing = false;
        if (process != nullptr) process->Start();
      });
      return;
  }
}

void Scenario::StepClock() {
  Random& random = world_.random();
  MachineClock* const clock = fleet_.all_clocks()[random.Below(fleet_.all_clocks().size())];
  const absl::Duration most = random.OneIn(2) ? absl::Seconds(10) : absl::Hours(3);
  const absl::Duration by =
      random.Between(absl::Milliseconds(1), most) * (random.OneIn(2) ? 1 : -1);
  world_.Fault("clock step");
  world_.Log("world", absl::StrCat("a wall clock steps by ", absl::FormatDuration(by)));
  clock->StepWall(by);
  for (const auto& replica : fleet_.credentials()) {
    if (replica->clock() != clock || absl::AbsDuration(by) <= absl::Seconds(10)) continue;
    fleet_.credentials_witness().ClockStepped();
  }
}

// Of one with Tasks on it, if there is any.
size_t Scenario::BusyMachine() {
  const size_t machines = fleet_.machines().size();
  const size_t first = world_.random().Below(machines);
  for (size_t i = 0; i < machines; ++i) {
    const size_t machine = (first + i) % machines;
    if (fleet_.machines()[machine]->busy()) return machine;
  }
  return first;
}

bool Scenario::IsLastWatcher(const Process& process) const {
  for (size_t i = 0; i < fleet_.agents().size(); ++i) {
    if (fleet_.agents()[i].get() == &process) return fleet_.machines()[i]->has_stopped_shim();
  }
  return false;
}

Outcome Scenario::Run() {
  fleet_.Start();
  fleet_.dataset_owners().Act(config_.faults ? config_.trouble : absl::ZeroDuration());
  fleet_.people().Act(config_.faults ? config_.trouble : absl::ZeroDuration());
  if (config_.faults) {
    fleet_.operators().Act(config_.trouble);
    fleet_.maintainers().Act(config_.trouble);
    fleet_.buyers().Act(config_.trouble);
    fleet_.queue_owners().Act(config_.trouble, HasTerms());
    if (config_.seed % kSeedsOfJobOwners == 2) fleet_.job_owners().Act(config_.trouble);
    for (const auto& subscriber : fleet_.subscribers()) subscriber->GoBackUntil(config_.trouble);
  }
  PlanJobs();
  if (config_.faults) {
    PlanFault();
    PlanLoaderKill();
  }
  world_.After(config_.trouble, [this] { fleet_.HealAll(); });
  // Faults planned before the end may still lift or bite up to their length later.
  const absl::Duration end = config_.trouble + config_.settle;
  Outcome outcome;
  bool settled = false;
  std::string why;
  absl::Duration next_look = config_.trouble + absl::Minutes(5);
  while (world_.violation().empty() && world_.now() < end && world_.Step()) {
    ++outcome.steps;
    if (world_.now() < next_look) continue;
    next_look = world_.now() + absl::Seconds(20);
    settled = fleet_.Settled(config_.jobs, &why);
    if (settled) break;
  }
  if (!settled && world_.violation().empty()) {
    world_.Violate(absl::StrCat("not settled in time: ", why));
  }
  outcome.violation = world_.violation();
  outcome.log_hash = world_.log_hash();
  outcome.gangs = fleet_.witness().generations();
  outcome.commits = fleet_.witness().commits();
  outcome.certificates = fleet_.credentials_witness().issued();
  outcome.tokens = fleet_.credentials_witness().tokens();
  outcome.preemptions = fleet_.Preemptions();
  outcome.evictions = fleet_.placement_witness().evictions();
  outcome.placed_before = fleet_.placement_witness().placed_before();
  outcome.orders_used = fleet_.placement_witness().orders_used();
  outcome.sections_there = fleet_.placement_witness().sections_there();
  outcome.sections_left_out = fleet_.placement_witness().sections_left_out();
  const QueueWitness& queues = fleet_.placement_witness().queues();
  outcome.placed_below_limits = queues.placed_below_limits();
  outcome.placed_after_others = queues.placed_after_others();
  outcome.ended_for_others = queues.ended_for_others();
  outcome.placed_for_good = queues.placed_for_good();
  outcome.placed_beside_lenders = queues.placed_beside_lenders();
  outcome.placed_by_labels = fleet_.placement_witness().placed_by_labels();
  outcome.instances = fleet_.witness().mig().starts();
  const DatasetWitness& datasets = fleet_.witness().datasets();
  outcome.tasks_with_datasets = datasets.starts();
  outcome.versions_left = datasets.evictions();
  outcome.loads_taken_up = datasets.taken_up();
  outcome.faults = world_.faults();
  outcome.time = world_.now();
  return outcome;
}

}  // namespace

Outcome RunScenario(const ScenarioConfig& config) { return Scenario(config).Run(); }

}  // namespace capstan::simulation
