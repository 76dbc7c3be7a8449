#ifndef CAPSTAN_INTEGRATION_SIMULATION_SCHEDULER_ACTOR_H_
#define CAPSTAN_INTEGRATION_SIMULATION_SCHEDULER_ACTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "integration/simulation/load_follower.h"
#include "integration/simulation/loader_actor.h"
#include "integration/simulation/mutants.h"
#include "integration/simulation/network.h"
#include "integration/simulation/process.h"
#include "integration/simulation/telemetry_actor.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "proto/capstan/scheduler/v1/capacity_order.pb.h"
#include "proto/capstan/scheduler/v1/job.pb.h"
#include "proto/capstan/scheduler/v1/job_service.pb.h"
#include "proto/capstan/scheduler/v1/maintenance.pb.h"
#include "proto/capstan/scheduler/v1/node.pb.h"
#include "proto/capstan/scheduler/v1/queue.pb.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::simulation {

// The store that the schedulers share: it never crashes, but may not be reached. It keeps the
// leadership key, and whose it is, under a lease of its own clock.
struct SharedStore {
  static constexpr char kName[] = "store";
  static constexpr char kOutboxPrefix[] = "outbox/";
  Disk disk;
  // What the core reads: all but the outbox, which is the engine's.
  std::vector<store::KeyValue> CoreRecords() const;
  // Of one life of a process: as etcd's lease, a claim is nobody's who is started later.
  std::string leader;
  int64_t epoch = 0;
  absl::Duration lease_ends;
};

// A scheduler replica: leads or waits to. The real core; leadership as libs/store has it.
class SchedulerActor final : public Process {
 public:
  // For how long each Job runs before it is ended for another one, where no Queue says anything.
  static constexpr absl::Duration kMinRuntime = absl::Seconds(30);

  SchedulerActor(Network* network, const MachineClock* clock, std::string name, SharedStore* store,
                 LoaderActor* loader, TelemetryActor* telemetry, const Mutants* mutants);

  // An executor dials; refused unless this replica leads.
  Network::UpperEnd Accept(std::shared_ptr<Pipe> pipe);

  template <typename T>
  using Reply = std::function<void(absl::StatusOr<T>)>;
  void CreateJob(scheduler::CreateJob call, Reply<capstan::scheduler::v1::Job> reply);
  void UpdateJob(scheduler::UpdateJob call, Reply<capstan::scheduler::v1::Job> reply);
  void CancelJob(scheduler::CancelJob call, Reply<capstan::scheduler::v1::Job> reply);
  void CreateQueue(scheduler::CreateQueue call, Reply<capstan::scheduler::v1::Queue> reply);
  void UpdateQueue(scheduler::UpdateQueue call, Reply<capstan::scheduler::v1::Queue> reply);
  // Sees to it that asking has changed nothing.
  void SimulatePlacement(const capstan::scheduler::v1::SimulatePlacementRequest& request,
                         const Reply<capstan::scheduler::v1::SimulatePlacementResponse>& reply);
  void CordonNode(scheduler::CordonNode call, Reply<capstan::scheduler::v1::Node> reply);
  void UncordonNode(scheduler::UncordonNode call, Reply<capstan::scheduler::v1::Node> reply);
  void CreateMaintenanceWindow(scheduler::CreateMaintenanceWindow call,
                               Reply<capstan::scheduler::v1::MaintenanceWindow> reply);
  // Replies true.
  void DeleteMaintenanceWindow(scheduler::DeleteMaintenanceWindow call, Reply<bool> reply);
  void CreateCapacityOrder(scheduler::CreateCapacityOrder call,
                           Reply<capstan::scheduler::v1::CapacityOrder> reply);
  // Replies true.
  void DeleteCapacityOrder(scheduler::DeleteCapacityOrder call, Reply<bool> reply);
  // What is stored of all Nodes, as those who watch are shown; refused unless this replica leads.
  absl::StatusOr<std::vector<capstan::scheduler::v1::Node>> Nodes() const;
  // Jobs that wait in their Queues, with their classes of demand, by uid; refused unless this
  // replica leads.
  struct WaitingJob {
    std::string name;
    std::string demand_class;
  };
  absl::StatusOr<std::vector<WaitingJob>> WaitingJobs() const;
  // A call whose answer no one waits for; false if this replica does not lead.
  bool Tell(const scheduler::Event& call);

  const scheduler::SchedulerCore* core() const { return core_.get(); }

  // Told of every step of the core before anything of it is stored or carried out.
  using Observer = std::function<void(const SchedulerActor& who, const scheduler::Event& event,
                                      Now now, const scheduler::Step& step)>;
  void SetObserver(Observer observer) { observer_ = std::move(observer); }

 protected:
  void OnStart() override;
  void OnCrash() override;
  void OnAlarm() override;

 private:
  template <typename T>
  using Calls = std::map<scheduler::CallId, Reply<T>>;

  // Has the core take a call, and its answer go to `reply`.
  template <typename T, typename Call>
  void Take(Call call, Reply<T> reply);
  template <typename T>
  void Answer(scheduler::CallId id, const absl::StatusOr<T>& answer);
  void KeepAlive();
  // What the core of a new term is loaded from.
  std::vector<store::KeyValue> RecordsToLoad() const;
  void Lead(int64_t epoch);
  // Gives up the term: drops the core, the calls and the sessions.
  void StepDown(const std::string& why);
  void Apply(const scheduler::Event& event);
  void CarryOut(const scheduler::Effect& effect, int64_t revision);
  // Of the mutants that answer before they have stored.
  bool AnswersFirst(const scheduler::Effect& effect) const;
  // Sends the oldest events to telemetry, deletes what it has taken, and so on while it leads.
  void Ship(int64_t epoch);
  void ReleasePins(const std::string& job_uid, int64_t generation);
  // What the mutant says after its term.
  void AnswerDeposed(scheduler::SessionId session, int64_t sequence);
  // All that the leader knows and is about to do, and what is stored.
  struct Fingerprint {
    std::map<std::string, std::string> records;
    std::map<std::string, std::string> stored;
    absl::optional<BootTime> next_deadline;
    int64_t rounds = 0;
    size_t waiting = 0;
    friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
  };
  Fingerprint TakeFingerprint() const;
  bool StoreReached() const;
  // Whom the leadership key names when this life holds it.
  std::string Claim() const;

  Network* const network_;
  SharedStore* const store_;
  LoaderActor* const loader_;
  TelemetryActor* const telemetry_;
  const Mutants* const mutants_;
  Observer observer_;
  scheduler::SessionId next_session_ = 1;
  scheduler::CallId next_call_ = 1;
  // Of this life.
  int64_t ended_epoch_ = 0;
  // Of this term.
  int64_t epoch_ = 0;
  // Of the outbox.
  int64_t next_sequence_ = 0;
  BootTime leader_until_ = BootTime::InfinitePast();
  scheduler::CoreConfig config_;
  std::unique_ptr<scheduler::SchedulerCore> core_;
  std::unique_ptr<LoadFollower> loads_;
  std::unique_ptr<CommitPipe> pipe_;
  // What a stepping-down replica still has on its stack.
  std::unique_ptr<CommitPipe> old_pipe_;
  std::map<scheduler::SessionId, std::shared_ptr<Pipe>> sessions_;
  std::tuple<Calls<capstan::scheduler::v1::Job>, Calls<capstan::scheduler::v1::Queue>,
             Calls<capstan::scheduler::v1::Node>, Calls<capstan::scheduler::v1::MaintenanceWindow>,
             Calls<capstan::scheduler::v1::CapacityOrder>, Calls<bool>>
      calls_;
};

}  // namespace capstan::simulation

#endif  // CAPSTAN_INTEGRATION_SIMULATION_SCHEDULER_ACTOR_H_
