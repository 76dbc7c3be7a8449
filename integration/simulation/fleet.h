#ifndef CAPSTAN_INTEGRATION_SIMULATION_FLEET_H_
#define CAPSTAN_INTEGRATION_SIMULATION_FLEET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "integration/simulation/agent_actor.h"
#include "integration/simulation/buyers.h"
#include "integration/simulation/credentials_actor.h"
#include "integration/simulation/credentials_witness.h"
#include "integration/simulation/dataset_owners.h"
#include "integration/simulation/dataset_sources.h"
#include "integration/simulation/executor_actor.h"
#include "integration/simulation/health_actor.h"
#include "integration/simulation/job_owners.h"
#include "integration/simulation/loader_actor.h"
#include "integration/simulation/machine.h"
#include "integration/simulation/maintainers.h"
#include "integration/simulation/mutants.h"
#include "integration/simulation/network.h"
#include "integration/simulation/operators.h"
#include "integration/simulation/people.h"
#include "integration/simulation/placement_witness.h"
#include "integration/simulation/process.h"
#include "integration/simulation/queue_owners.h"
#include "integration/simulation/remote_store.h"
#include "integration/simulation/scheduler_actor.h"
#include "integration/simulation/subscriber_actor.h"
#include "integration/simulation/telemetry_actor.h"
#include "integration/simulation/witness.h"
#include "integration/simulation/world.h"
#include "proto/capstan/scheduler/v1/job.pb.h"

namespace capstan::simulation {

struct FleetConfig {
  uint64_t seed = 0;
  int clusters = 2;
  int nodes_per_cluster = 3;
  // Of each Node.
  int64_t cpu_millis = 4000;
  // The first two of each Cluster have GPUs in MIG mode: two H100, and an H100 and an A30.
  bool mig_gpus = false;
  ProgramConfig program;
  // Silent Nodes, too, are cordoned.
  bool cluster_manager = false;
  // Two programs read telemetry's subscription.
  bool subscribers = false;
  bool print_log = false;
  Mutants mutants;
};

// A Job as someone submits it, again and again until it is acknowledged. As in the API each call
// that reaches a leader has a uid of its own: the first of them this one. What the Job was made
// with is in the answer.
struct SubmittedJob {
  std::string uid;
  std::string request_id;
  bool reached_leader = false;
  capstan::scheduler::v1::JobSpec spec;
};

// The real cores of scheduler (two replicas of it, and two of credentials), executors, agents,
// shims, data_loader, credentials, telemetry and cluster_manager, wired to each other over a
// simulated network, and people who submit, deny, cordon, plan maintenance, order Nodes and keep
// Queues and Datasets. Process i of agents() runs on machine i of machines(), in Cluster
// i / nodes_per_cluster.
class Fleet {
 public:
  explicit Fleet(const FleetConfig& config);
  ~Fleet() { world_.End(); }

  World& world() { return world_; }
  Network& network() { return network_; }
  const SharedStore& store() const { return store_; }
  Witness& witness() { return witness_; }
  const std::vector<std::unique_ptr<SchedulerActor>>& schedulers() const { return schedulers_; }
  const std::vector<std::unique_ptr<ExecutorActor>>& executors() const { return executors_; }
  const std::vector<std::unique_ptr<Machine>>& machines() const { return machines_; }
  const std::vector<std::unique_ptr<AgentActor>>& agents() const { return agents_; }
  LoaderActor& loader() { return *loader_; }
  const TelemetryActor& telemetry() const { return *telemetry_; }
  const std::vector<std::unique_ptr<CredentialsActor>>& credentials() const { return credentials_; }
  CredentialsWitness& credentials_witness() { return credentials_witness_; }
  People& people() { return *people_; }
  Operators& operators() { return *operators_; }
  Maintainers& maintainers() { return *maintainers_; }
  Buyers& buyers() { return *buyers_; }
  QueueOwners& queue_owners() { return *queue_owners_; }
  DatasetOwners& dataset_owners() { return *dataset_owners_; }
  JobOwners& job_owners() { return *job_owners_; }
  const PlacementWitness& placement_witness() const { return placement_witness_; }
  HealthActor& health() { return *health_; }
  const std::vector<std::unique_ptr<SubscriberActor>>& subscribers() const { return subscribers_; }
  // Every one that may crash.
  const std::vector<Process*>& processes() const { return processes_; }
  // The disks that may be full, slow or failing, and whose they are; the schedulers' is of no
  // process.
  struct OwnedDisk {
    std::string name;
    Process* process = nullptr;
    Disk* disk = nullptr;
  };
  const std::vector<OwnedDisk>& disks() const { return disks_; }
  // Of the machines of all processes.
  const std::vector<MachineClock*>& all_clocks() const { return all_clocks_; }
  // Of the agent on machine `i`.
  ExecutorActor* executor_of(size_t i) const;

  // Starts everything.
  void Start();
  // Undoes cuts, delays, crashes, stops and what troubles disks.
  void HealAll();
  // Cuts `a` from `b`, or each from the other, for a while.
  void CutFor(const std::string& a, const std::string& b, bool both, absl::Duration how_long);

  // A Job of `replicas` Tasks of 1 CPU each, with defaults filled in but for fence_after, which is
  // the default if zero; it writes an Output and is restarted as often as needed.
  static capstan::scheduler::v1::JobSpec Spec(int32_t replicas, absl::Duration fence_after);
  // The same with a fresh uid.
  std::shared_ptr<SubmittedJob> MakeJob(int32_t replicas, absl::Duration fence_after);
  using Done = std::function<void(const capstan::scheduler::v1::Job&)>;
  // Asks one scheduler after the other until the Job is acknowledged; then tells the witness.
  void Submit(const std::shared_ptr<SubmittedJob>& job, Done done = nullptr);
  // The same for a cancel.
  void Cancel(const std::string& name);
  int acknowledged() const { return acknowledged_; }

  // Whether `jobs` Jobs are acknowledged, every acknowledged one is stored as final, and nothing is
  // left of any: no process, folder, record, uid, pin or MIG instance, nor a maintenance window or
  // an order of capacity. If not, says why.
  bool Settled(int jobs, std::string* why) const;
  // How often Jobs that are stored were ended for others.
  int64_t Preemptions() const;

 private:
  // Someone at a terminal: never crashes.
  class User final : public Process {
   public:
    User(World* world, const MachineClock* clock) : Process(world, "user", clock) {}

   protected:
    void OnStart() override {}
    void OnCrash() override {}
    void OnAlarm() override {}
  };

  bool PeopleAreDone(std::string* why) const;
  SchedulerActor* AnyScheduler() {
    return schedulers_[world_.random().Below(schedulers_.size())].get();
  }

  const FleetConfig config_;
  World world_;
  Network network_;
  SharedStore store_;
  StoreServer credentials_store_;
  CredentialsWitness credentials_witness_;
  Witness witness_;
  DatasetSources dataset_sources_;
  PlacementWitness placement_witness_;
  MachineClock service_clock_;
  std::vector<std::unique_ptr<MachineClock>> clocks_;
  std::unique_ptr<LoaderActor> loader_;
  std::unique_ptr<TelemetryActor> telemetry_;
  std::vector<std::unique_ptr<CredentialsActor>> credentials_;
  std::vector<std::unique_ptr<SchedulerActor>> schedulers_;
  std::vector<std::unique_ptr<ExecutorActor>> executors_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::vector<std::unique_ptr<AgentActor>> agents_;
  std::unique_ptr<User> user_;
  std::unique_ptr<People> people_;
  std::unique_ptr<HealthActor> health_;
  std::unique_ptr<Operators> operators_;
  std::unique_ptr<Maintainers> maintainers_;
  std::unique_ptr<Buyers> buyers_;
  std::unique_ptr<QueueOwners> queue_owners_;
  std::unique_ptr<JobOwners> job_owners_;
  std::unique_ptr<DatasetOwners> dataset_owners_;
  std::vector<std::unique_ptr<SubscriberActor>> subscribers_;
  std::vector<Process*> processes_;
  std::vector<OwnedDisk> disks_;
  std::vector<MachineClock*> all_clocks_;
  int acknowledged_ = 0;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_FLEET_H_
