#include "integration/simulation/fleet.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "integration/simulation/queue_witness.h"
#include "libs/auth/spiffe_id.h"
#include "libs/status/error.h"
#include "services/executor/core/keys.h"
#include "services/scheduler/core/validate.h"

namespace capstan::simulation {

using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::JobDependency;

Fleet::Fleet(const FleetConfig& config)
    : config_(config),
      world_(config.seed),
      network_(&world_),
      credentials_witness_(&world_, &credentials_store_.disk, CredentialsActor::Lives()),
      witness_(&world_, &store_.disk),
      dataset_sources_(&world_),
      placement_witness_(&world_, &store_),
      service_clock_(&world_) {
  if (config.print_log) world_.PrintLog();
  const auto clock = [this] {
    clocks_.push_back(std::make_unique<MachineClock>(&world_));
    return clocks_.back().get();
  };
  loader_ = std::make_unique<LoaderActor>(&world_, clock(), &dataset_sources_, &witness_,
                                          &config_.mutants);
  telemetry_ = std::make_unique<TelemetryActor>(&world_, clock(), &config_.mutants);
  credentials_store_.applied = [this] { credentials_witness_.Stored(); };
  std::vector<CredentialsActor*> credentials;
  for (const char* name : {"credentials-a", "credentials-b"}) {
    credentials_.push_back(std::make_unique<CredentialsActor>(
        &network_, clock(), name, &credentials_store_, &credentials_witness_, &config_.mutants));
    credentials.push_back(credentials_.back().get());
  }
  std::vector<SchedulerActor*> schedulers;
  for (const char* name : {"scheduler-a", "scheduler-b"}) {
    schedulers_.push_back(std::make_unique<SchedulerActor>(
        &network_, clock(), name, &store_, loader_.get(), telemetry_.get(), &config_.mutants));
    schedulers.push_back(schedulers_.back().get());
    schedulers.back()->SetObserver(
        [this](const auto&... said) { placement_witness_.SawStep(said...); });
  }
  std::vector<auth::SpiffeId> nodes;
  for (int c = 0; c < config.clusters; ++c) {
    const std::string cluster = absl::StrCat("c", c);
    executors_.push_back(
        std::make_unique<ExecutorActor>(&network_, clock(), cluster, schedulers, &config_.mutants));
    for (int n = 0; n < config.nodes_per_cluster; ++n) {
      const std::string node = absl::StrCat(cluster, "-n", n);
      std::vector<std::string> mig_models;
      if (config.mig_gpus && n == 0) mig_models = {"H100-80GB", "H100-80GB"};
      if (config.mig_gpus && n == 1) mig_models = {"H100-80GB", "A30-24GB"};
      machines_.push_back(std::make_unique<Machine>(
          &world_, node, config.cpu_millis, std::move(mig_models), config.program, &witness_,
          config.mutants.shim_ignores_deadline));
      machines_.back()->SetLabel(Maintainers::kRowLabel, n % 2 == 0 ? "a" : "b");
      agents_.push_back(std::make_unique<AgentActor>(&network_, machines_.back().get(), cluster,
                                                     node, executors_.back().get(), loader_.get(),
                                                     credentials, &config_.mutants));
      nodes.push_back(auth::SpiffeId::Node(CredentialsActor::kDomain, cluster, node));
    }
  }
  user_ = std::make_unique<User>(&world_, &service_clock_);
  people_ = std::make_unique<People>(&network_, &service_clock_, credentials, nodes);
  std::vector<Operators::Place> places;
  std::vector<Buyers::Place> ordered;
  std::vector<scheduler::NodeId> maintained;
  for (size_t i = 0; i < machines_.size(); ++i) {
    const scheduler::NodeId id{nodes[i].cluster, nodes[i].node};
    places.push_back({id, machines_[i].get()});
    ordered.push_back({id, machines_[i].get()});
    maintained.push_back(id);
  }
  operators_ = std::make_unique<Operators>(&network_, &service_clock_, schedulers, &store_, places);
  maintainers_ = std::make_unique<Maintainers>(&network_, &service_clock_, schedulers,
                                               &placement_witness_, maintained);
  buyers_ = std::make_unique<Buyers>(&network_, &service_clock_, schedulers, &placement_witness_,
                                     ordered);
  queue_owners_ = std::make_unique<QueueOwners>(&network_, &service_clock_, schedulers,
                                                &placement_witness_.queues());
  job_owners_ = std::make_unique<JobOwners>(&network_, &service_clock_, schedulers, &store_);
  dataset_owners_ =
      std::make_unique<DatasetOwners>(&network_, &service_clock_, loader_.get(), &dataset_sources_);
  health_ = std::make_unique<HealthActor>(
      &network_, clock(), schedulers, [this] { operators_->Check(); }, &config_.mutants);
  if (config.subscribers) {
    for (const char* name : {"reader-a", "reader-b"}) {
      subscribers_.push_back(
          std::make_unique<SubscriberActor>(&network_, clock(), name, telemetry_.get()));
    }
  }
  processes_ = {loader_.get(), telemetry_.get()};
  for (auto& replica : credentials_) processes_.push_back(replica.get());
  if (config.cluster_manager) processes_.push_back(health_.get());
  for (auto& scheduler : schedulers_) processes_.push_back(scheduler.get());
  for (auto& subscriber : subscribers_) processes_.push_back(subscriber.get());
  for (auto& executor : executors_) processes_.push_back(executor.get());
  for (auto& agent : agents_) processes_.push_back(agent.get());
  disks_ = {{SharedStore::kName, nullptr, &store_.disk},
            {loader_->name(), loader_.get(), loader_->mutable_disk()},
            {StoreServer::kName, nullptr, &credentials_store_.disk},
            {telemetry_->name(), telemetry_.get(), telemetry_->mutable_disk()},
            {health_->name(), health_.get(), health_->mutable_disk()}};
  for (auto& e : executors_) disks_.push_back({e->name(), e.get(), e->mutable_disk()});
  for (auto& a : agents_) disks_.push_back({a->name(), a.get(), a->mutable_disk()});
  for (const OwnedDisk& owned : disks_) owned.disk->lies = config.mutants.failed_commit_taken;
  for (auto& each : clocks_) all_clocks_.push_back(each.get());
  for (auto& machine : machines_) all_clocks_.push_back(machine->mutable_clock());
}

ExecutorActor* Fleet::executor_of(size_t i) const {
  return executors_[i / config_.nodes_per_cluster].get();
}

void Fleet::Start() {
  for (Process* process : processes_) process->Start();
  user_->Start();
  people_->Start();
  operators_->Start();
  maintainers_->Start();
  buyers_->Start();
  queue_owners_->Start();
  job_owners_->Start();
  dataset_owners_->Start();
}

void Fleet::HealAll() {
  world_.Log("world", "heals");
  network_.Heal();
  network_.Calm();
  health_->ShowAll();
  for (const OwnedDisk& owned : disks_) owned.disk->Heal();
  for (Process* process : processes_) {
    process->Start();
    process->Continue();
  }
}

void Fleet::CutFor(const std::string& a, const std::string& b, bool both, absl::Duration how_long) {
  world_.Log("network", absl::StrCat("cuts ", a, both ? " and " : " to ", b, " for ",
                                     absl::FormatDuration(how_long)));
  network_.Cut(a, b);
  if (both) network_.Cut(b, a);
  world_.After(how_long, [this, a, b, both] {
    network_.Heal(a, b);
    if (both) network_.Heal(b, a);
  });
}

capstan::scheduler::v1::JobSpec Fleet::Spec(int32_t replicas, absl::Duration fence_after) {
  capstan::scheduler::v1::JobSpec spec;
  capstan::scheduler::v1::TaskGroup& group = *spec.add_task_groups();
  group.set_name("w");
  group.set_replicas(replicas);
  group.add_argv("/bin/train");
  group.mutable_resources()->set_cpu_millis(1000);
  group.mutable_resources()->set_memory_bytes(int64_t{1} << 30);
  if (fence_after > absl::ZeroDuration()) {
    spec.mutable_fence_after()->set_seconds(absl::ToInt64Seconds(fence_after));
  }
  spec.mutable_stop_grace()->set_seconds(5);
  spec.mutable_retry()->set_max_restarts(100);
  spec.set_output(true);
  scheduler::ApplyDefaults("projects/p", scheduler::CoreConfig(), &spec);
  return spec;
}

std::shared_ptr<SubmittedJob> Fleet::MakeJob(int32_t replicas, absl::Duration fence_after) {
  auto job = std::make_shared<SubmittedJob>();
  job->uid = world_.random().Uuid4();
  job->request_id = world_.random().Uuid4();
  job->spec = Spec(replicas, fence_after);
  return job;
}

void Fleet::Submit(const std::shared_ptr<SubmittedJob>& job, Done done) {
  SchedulerActor* scheduler = AnyScheduler();
  network_.Call<Job>(
      user_.get(), scheduler,
      [this, scheduler, job](auto reply) {
        scheduler::CreateJob call;
        call.project = "projects/p";
        const bool is_first =
            scheduler->core() == nullptr || !std::exchange(job->reached_leader, true);
        call.uid = is_first ? job->uid : world_.random().Uuid4();
        call.submitter = "person/1000";
        call.request_id = job->request_id;
        call.body_hash = "hash-" + job->request_id;
        call.spec = job->spec;
        (*call.spec.mutable_labels())[QueueWitness::kRequestLabel] = job->request_id;
        scheduler->CreateJob(std::move(call), std::move(reply));
      },
      [this, job, done = std::move(done)](absl::StatusOr<Job> made) {
        if (!made.ok()) {
          if (status::Reason(made.status()) == "DEPENDENCY_FAILED") {
            // As it says: another condition, which makes it another request.
            job->spec.mutable_after(0)->set_condition(JobDependency::CONDITION_ENDED);
            job->request_id = world_.random().Uuid4();
          }
          world_.After(absl::Seconds(2), [this, job, done] { Submit(job, done); });
          return;
        }
        ++acknowledged_;
        witness_.JobAcknowledged(made->uid());
        job_owners_->Have(*made);
        if (done != nullptr) done(*made);
      });
}

void Fleet::Cancel(const std::string& name) {
  SchedulerActor* scheduler = AnyScheduler();
  network_.Call<Job>(
      user_.get(), scheduler,
      [scheduler, name](auto reply) {
        scheduler::CancelJob call;
        call.name = name;
        scheduler->CancelJob(std::move(call), std::move(reply));
      },
      [this, name](absl::StatusOr<Job> cancelled) {
        if (cancelled.ok()) return witness_.CancelAcknowledged(cancelled->uid());
        world_.After(absl::Seconds(2), [this, name] { Cancel(name); });
      });
}

int64_t Fleet::Preemptions() const {
  const auto core = scheduler::SchedulerCore::Load(scheduler::CoreConfig(), store_.CoreRecords());
  int64_t preemptions = 0;
  if (!core.ok()) return preemptions;
  for (const auto& [uid, job] : (*core)->model().jobs) preemptions += job.state.preemptions();
  return preemptions;
}

bool Fleet::PeopleAreDone(std::string* why) const {
  if (!people_->Idle()) {
    *why = "people wait for credentials";
  } else if (!maintainers_->Idle()) {
    *why = "maintainers wait for the scheduler";
  } else if (!buyers_->Idle()) {
    *why = "buyers wait for the scheduler";
  } else if (!queue_owners_->Idle()) {
    *why = "owners of Queues wait for the scheduler";
  } else if (!job_owners_->Idle()) {
    *why = "owners of Jobs wait for the scheduler";
  } else {
    return operators_->Idle(why);
  }
  return false;
}

bool Fleet::Settled(int jobs, std::string* why) const {
  if (acknowledged_ < jobs) {
    *why = absl::StrCat(jobs - acknowledged_, " jobs are not acknowledged");
    return false;
  }
  auto core = scheduler::SchedulerCore::Load(scheduler::CoreConfig(), store_.CoreRecords());
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
  if (!dataset_owners_->Idle(why) || !witness_.datasets().Settled(loader_->disk(), why)) {
    return false;
  }
  if (!PeopleAreDone(why) || !credentials_witness_.AllStored(why)) return false;
  if (!model.maintenance_windows.empty()) {
    *why = absl::StrCat(model.maintenance_windows.begin()->second.window().name(), " is left");
    return false;
  }
  if (!model.capacity_orders.empty()) {
    *why = absl::StrCat("order ", model.capacity_orders.begin()->first, " is left");
    return false;
  }
  if (!telemetry_->witness().HasAll(why)) return false;
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

}  // namespace capstan::simulation
