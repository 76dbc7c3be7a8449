#include "integration/simulation/scenario.h"

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "integration/simulation/agent_actor.h"
#include "integration/simulation/executor_actor.h"
#include "integration/simulation/loader_actor.h"
#include "integration/simulation/machine.h"
#include "integration/simulation/network.h"
#include "integration/simulation/scheduler_actor.h"
#include "integration/simulation/witness.h"
#include "integration/simulation/world.h"
#include "services/executor/core/keys.h"
#include "services/scheduler/core/validate.h"

namespace capstan::simulation {
namespace {

using capstan::scheduler::v1::Job;

// Someone at a terminal: never crashes, asks again with the same request id until answered.
class User final : public Process {
 public:
  User(World* world, const MachineClock* clock) : Process(world, "user", clock) {}

 protected:
  void OnStart() override {}
  void OnCrash() override {}
  void OnAlarm() override {}
};

class Scenario {
 public:
  explicit Scenario(const ScenarioConfig& config);
  Outcome Run();

 private:
  struct SubmittedJob {
    std::string uid;
    std::string request_id;
    capstan::scheduler::v1::JobSpec spec;
    bool cancel = false;
  };

  void PlanJobs();
  void Submit(const std::shared_ptr<SubmittedJob>& job);
  void Cancel(const std::shared_ptr<SubmittedJob>& job, const std::string& name);
  void PlanFault();
  void FireFault();
  void CutFor(const std::string& a, const std::string& b, bool both, absl::Duration how_long);
  void HealAll();
  bool Settled(std::string* why) const;
  SchedulerActor* AnyScheduler() {
    return schedulers_[world_.random().Below(schedulers_.size())].get();
  }
  absl::Duration HowLong();
  Machine* BusyMachine();

  const ScenarioConfig config_;
  World world_;
  Network network_;
  SharedStore store_;
  Witness witness_;
  MachineClock service_clock_;
  std::vector<std::unique_ptr<MachineClock>> clocks_;
  std::unique_ptr<LoaderActor> loader_;
  std::vector<std::unique_ptr<SchedulerActor>> schedulers_;
  std::vector<std::unique_ptr<ExecutorActor>> executors_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::vector<std::unique_ptr<AgentActor>> agents_;
  std::unique_ptr<User> user_;
  std::vector<Process*> processes_;
  int acknowledged_ = 0;
};

Scenario::Scenario(const ScenarioConfig& config)
    : config_(config),
      world_(config.seed),
      network_(&world_),
      witness_(&world_, &store_.disk),
      service_clock_(&world_) {
  if (config.print_log) world_.PrintLog();
  const auto clock = [this] {
    clocks_.push_back(std::make_unique<MachineClock>(&world_));
    return clocks_.back().get();
  };
  loader_ = std::make_unique<LoaderActor>(&world_, clock(), &witness_, &config_.mutants);
  std::vector<SchedulerActor*> schedulers;
  for (const char* name : {"scheduler-a", "scheduler-b"}) {
    schedulers_.push_back(std::make_unique<SchedulerActor>(&network_, clock(), name, &store_,
                                                           loader_.get(), &config_.mutants));
    schedulers.push_back(schedulers_.back().get());
  }
  for (int c = 0; c < config.clusters; ++c) {
    const std::string cluster = absl::StrCat("c", c);
    executors_.push_back(std::make_unique<ExecutorActor>(&network_, clock(), cluster, schedulers));
    for (int n = 0; n < config.nodes_per_cluster; ++n) {
      const std::string node = absl::StrCat(cluster, "-n", n);
      machines_.push_back(std::make_unique<Machine>(&world_, node, 4000, ProgramConfig(), &witness_,
                                                    config.mutants.shim_ignores_deadline));
      agents_.push_back(std::make_unique<AgentActor>(&network_, machines_.back().get(), cluster,
                                                     node, executors_.back().get(), loader_.get()));
    }
  }
  user_ = std::make_unique<User>(&world_, &service_clock_);
  processes_ = {loader_.get()};
  for (auto& scheduler : schedulers_) processes_.push_back(scheduler.get());
  for (auto& executor : executors_) processes_.push_back(executor.get());
  for (auto& agent : agents_) processes_.push_back(agent.get());
}

void Scenario::PlanJobs() {
  for (int i = 0; i < config_.jobs; ++i) {
    auto job = std::make_shared<SubmittedJob>();
    job->uid = world_.random().Uuid4();
    job->request_id = world_.random().Uuid4();
    capstan::scheduler::v1::TaskGroup& group = *job->spec.add_task_groups();
    group.set_name("w");
    group.set_replicas(static_cast<int32_t>(world_.random().Between(int64_t{1}, int64_t{5})));
    group.add_argv("/bin/train");
    group.mutable_resources()->set_cpu_millis(1000);
    group.mutable_resources()->set_memory_bytes(int64_t{1} << 30);
    job->spec.mutable_fence_after()->set_seconds(60);
    job->spec.mutable_stop_grace()->set_seconds(5);
    job->spec.mutable_retry()->set_max_restarts(100);
    job->spec.set_output(true);
    scheduler::ApplyDefaults("projects/p", scheduler::CoreConfig(), &job->spec);
    job->cancel = world_.random().OneIn(8);
    world_.After(world_.random().Between(absl::Seconds(1), config_.trouble * 3 / 4),
                 [this, job] { Submit(job); });
  }
}

void Scenario::Submit(const std::shared_ptr<SubmittedJob>& job) {
  SchedulerActor* scheduler = AnyScheduler();
  network_.Call<Job>(
      user_.get(), scheduler,
      [scheduler, job](auto reply) {
        scheduler::CreateJob call;
        call.project = "projects/p";
        call.uid = job->uid;
        call.submitter = "person/1000";
        call.request_id = job->request_id;
        call.body_hash = "hash-" + job->uid;
        call.spec = job->spec;
        scheduler->CreateJob(std::move(call), std::move(reply));
      },
      [this, job](absl::StatusOr<Job> made) {
        if (!made.ok()) {
          world_.After(absl::Seconds(2), [this, job] { Submit(job); });
          return;
        }
        ++acknowledged_;
        witness_.JobAcknowledged(made->uid());
        if (!job->cancel) return;
        world_.After(world_.random().Between(absl::Seconds(1), absl::Minutes(3)),
                     [this, job, name = made->name()] { Cancel(job, name); });
      });
}

void Scenario::Cancel(const std::shared_ptr<SubmittedJob>& job, const std::string& name) {
  SchedulerActor* scheduler = AnyScheduler();
  network_.Call<Job>(
      user_.get(), scheduler,
      [scheduler, name](auto reply) {
        scheduler::CancelJob call;
        call.name = name;
        scheduler->CancelJob(std::move(call), std::move(reply));
      },
      [this, job, name](absl::StatusOr<Job> cancelled) {
        if (cancelled.ok()) return witness_.CancelAcknowledged(cancelled->uid());
        world_.After(absl::Seconds(2), [this, job, name] { Cancel(job, name); });
      });
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

void Scenario::CutFor(const std::string& a, const std::string& b, bool both,
                      absl::Duration how_long) {
  world_.Log("network", absl::StrCat("cuts ", a, both ? " and " : " to ", b, " for ",
                                     absl::FormatDuration(how_long)));
  network_.Cut(a, b);
  if (both) network_.Cut(b, a);
  world_.After(how_long, [this, a, b, both] {
    network_.Heal(a, b);
    if (both) network_.Heal(b, a);
  });
}

void Scenario::PlanFault() {
  world_.After(world_.random().Between(absl::Seconds(2), absl::Seconds(20)), [this] {
    if (world_.now() >= config_.trouble) return;
    FireFault();
    PlanFault();
  });
}

void Scenario::FireFault() {
  Random& random = world_.random();
  Process* process = processes_[random.Below(processes_.size())];
  const absl::Duration how_long = HowLong();
  switch (random.Below(14)) {
    case 0:
    case 1:
      world_.Fault("crash");
      process->Crash();
      world_.After(how_long, [process] { process->Start(); });
      return;
    case 2:
      world_.Fault("stop");
      process->Stop();
      world_.After(how_long, [process] { process->Continue(); });
      return;
    case 3: {
      // A Node from its executor, or an executor from the schedulers.
      world_.Fault("partition");
      const size_t i = random.Below(agents_.size());
      CutFor(agents_[i]->name(), executors_[i / config_.nodes_per_cluster]->name(), true, how_long);
      return;
    }
    case 4: {
      world_.Fault("partition");
      const std::string& executor = executors_[random.Below(executors_.size())]->name();
      for (const auto& scheduler : schedulers_) {
        CutFor(executor, scheduler->name(), true, how_long);
      }
      return;
    }
    case 5: {
      world_.Fault("partition");
      const std::string& scheduler = schedulers_[random.Below(schedulers_.size())]->name();
      CutFor(scheduler, SharedStore::kName, true, how_long);
      return;
    }
    case 6: {
      world_.Fault("partition one way");
      const size_t i = random.Below(agents_.size());
      const std::string& executor = executors_[i / config_.nodes_per_cluster]->name();
      if (random.OneIn(2)) {
        CutFor(agents_[i]->name(), executor, false, how_long);
      } else {
        CutFor(executor, agents_[i]->name(), false, how_long);
      }
      return;
    }
    case 7: {
      world_.Fault("partition one way");
      const std::string& scheduler = schedulers_[random.Below(schedulers_.size())]->name();
      const std::string& executor = executors_[random.Below(executors_.size())]->name();
      if (random.OneIn(2)) {
        CutFor(scheduler, executor, false, how_long);
      } else {
        CutFor(executor, scheduler, false, how_long);
      }
      return;
    }
    case 8:
      // Messages take long, overtake each other (those of different streams and calls), and calls
      // come twice.
      world_.Fault("delay");
      network_.SetSlowest(random.Between(absl::Milliseconds(200), absl::Seconds(8)));
      network_.SetDoubling(true);
      world_.After(how_long, [this] {
        network_.SetSlowest(absl::Milliseconds(20));
        network_.SetDoubling(false);
      });
      return;
    case 9: {
      const size_t i = random.Below(machines_.size());
      if (!random.OneIn(2)) return;
      world_.Fault("reboot");
      world_.Log(machines_[i]->name(), "reboots");
      agents_[i]->Crash();
      machines_[i]->Reboot();
      world_.After(how_long, [this, i] { agents_[i]->Start(); });
      return;
    }
    case 10:
      if (BusyMachine()->KillShim()) world_.Fault("shim kill");
      return;
    case 11:
    case 12:
      if (BusyMachine()->StopShim(how_long)) world_.Fault("shim stop");
      return;
    default:
      if (BusyMachine()->KillProgram()) world_.Fault("program kill");
  }
}

// One with Tasks on it, if there is any.
Machine* Scenario::BusyMachine() {
  const size_t first = world_.random().Below(machines_.size());
  for (size_t i = 0; i < machines_.size(); ++i) {
    Machine* machine = machines_[(first + i) % machines_.size()].get();
    if (machine->busy()) return machine;
  }
  return machines_[first].get();
}

void Scenario::HealAll() {
  world_.Log("world", "heals");
  network_.Heal();
  network_.SetSlowest(absl::Milliseconds(20));
  network_.SetDoubling(false);
  for (Process* process : processes_) {
    process->Start();
    process->Continue();
  }
}

// Every Job final as acknowledged, and nothing left of any: no process, folder, record, uid or pin.
bool Scenario::Settled(std::string* why) const {
  if (acknowledged_ < config_.jobs) {
    *why = absl::StrCat(config_.jobs - acknowledged_, " jobs are not acknowledged");
    return false;
  }
  auto core = scheduler::SchedulerCore::Load(scheduler::CoreConfig(), store_.disk.Read());
  if (!core.ok()) {
    *why = core.status().ToString();
    return false;
  }
  const scheduler::Model& model = (*core)->model();
  for (const std::string& uid : witness_.jobs()) {
    const scheduler::JobEntry* job = model.FindJob(uid);
    if (job == nullptr) {
      *why = absl::StrCat("acknowledged job ", uid, " is not stored");
      return false;
    }
    if (!job->final()) {
      *why = absl::StrCat("job ", uid, " is ", Job::State_Name(job->state.state()), " ",
                          job->state.reason(), " in generation ", job->state.generation());
      return false;
    }
  }
  for (const std::string& uid : witness_.cancels()) {
    const Job::State state = model.FindJob(uid)->state.state();
    if (state != Job::STATE_CANCELLED && state != Job::STATE_SUCCEEDED &&
        state != Job::STATE_FAILED) {
      *why = absl::StrCat("acknowledged cancel of ", uid, " is not stored");
      return false;
    }
  }
  if (!model.pin_releases.empty()) {
    *why = "pins are to be released";
    return false;
  }
  for (size_t i = 0; i < machines_.size(); ++i) {
    if (!machines_[i]->Empty()) {
      *why = absl::StrCat("left on a machine: ", machines_[i]->Left());
      return false;
    }
    if (agents_[i]->core() == nullptr || !agents_[i]->core()->tasks().empty()) {
      *why = absl::StrCat(agents_[i]->name(), " keeps Tasks");
      if (agents_[i]->core() == nullptr) return false;
      for (const auto& [id, entry] : agents_[i]->core()->tasks()) {
        absl::StrAppend(why, " ", id.Path(), " part ", entry.part, " ticket ", entry.ticket,
                        " order {", entry.order.ShortDebugString(), "} {",
                        entry.record.ShortDebugString(), "}");
      }
      return false;
    }
  }
  for (const auto& executor : executors_) {
    std::vector<std::string> left;
    for (const auto& [key, value] : executor->disk().records) {
      // What stays is the executor itself and its Nodes.
      if (key != executor::kSelfKey && key.find(executor::kNodePrefix) != 0) left.push_back(key);
    }
    if (!left.empty()) {
      *why = absl::StrCat(executor->name(), " keeps ", absl::StrJoin(left, " "));
      return false;
    }
  }
  return true;
}

Outcome Scenario::Run() {
  for (Process* process : processes_) process->Start();
  user_->Start();
  PlanJobs();
  if (config_.faults) PlanFault();
  world_.After(config_.trouble, [this] { HealAll(); });
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
    settled = Settled(&why);
    if (settled) break;
  }
  if (!settled && world_.violation().empty()) {
    world_.Violate(absl::StrCat("not settled in time: ", why));
  }
  outcome.violation = world_.violation();
  outcome.log_hash = world_.log_hash();
  outcome.gangs = witness_.generations();
  outcome.commits = witness_.commits();
  outcome.faults = world_.faults();
  outcome.time = world_.now();
  return outcome;
}

}  // namespace

Outcome RunScenario(const ScenarioConfig& config) { return Scenario(config).Run(); }

}  // namespace capstan::simulation
