#ifndef CAPSTAN_SERVICES_NODE_AGENT_CORE_AGENT_CORE_H_
#define CAPSTAN_SERVICES_NODE_AGENT_CORE_AGENT_CORE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/session/lower_side.h"
#include "libs/session/persist_set.h"
#include "libs/session/task_id.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "services/node_agent/core/gpu_book.h"
#include "services/node_agent/core/ports_book.h"
#include "services/node_agent/core/records.pb.h"
#include "services/node_agent/core/shim_spec.h"
#include "services/node_agent/core/step.h"
#include "services/node_agent/core/whole_gpu.h"

namespace capstan::node_agent {

struct CoreConfig {
  std::string cluster;
  std::string node;
  // Address at which peers reach the Node's ports.
  std::string host;
  // boot_id of the kernel now.
  std::string boot_id;
  // Ports for Tasks, less the kernel's own range.
  int32_t first_port = 20000;
  int32_t last_port = 29999;
  int32_t local_port_low = 32768;
  int32_t local_port_high = 60999;
  Isolation isolation;
  // The agent finds whole GPUs itself, and chooses which a Task has; else Tasks are only counted.
  bool chooses_gpus = false;
  // Bound of a Task's log spill.
  int64_t log_limit_bytes = int64_t{1} << 30;
};

// The decisions of a node agent: prepares, starts and ends Tasks as the executor orders, and keeps
// each dead by its deadline. Pure: every effect is a value.
//
// Guarantees, each tested on random orders of events:
// - StartTask is given at most once for a key, over all restarts, and only after a record that says
//   so is stored, a valid deadline is known, and PREPARE was carried out here in this generation.
// - A Task's deadline only rises, except by a stop; it is never later than confirmed_at +
// fence_after.
//   When it comes the agent ends the cgroup itself, whatever the shim does; so it does when the
//   shim has not taken up a later one by the end of the deadline that it keeps.
// - The end of a Task is reported only when its cgroup is empty, and success only after its Output
// is
//   committed; the first end stands.
// - A Task of another boot, or without a record, or without a shim, is reported LOST and never
// started.
// - A Task that no snapshot names is ended only after a complete one, within the breaker's bounds.
// - OpenOutput of a generation is answered before anything else is asked for it.
// Bounded by the Tasks of the Node.
class AgentCore {
 public:
  using TaskRecord = capstan::nodeagent::record::v1::Task;

  // `records`: everything under kPrefix, in any order. DATA_LOSS if one cannot be read.
  static absl::StatusOr<AgentCore> Load(CoreConfig config,
                                        const std::vector<store::KeyValue>& records, Now now);

  Step Apply(const Event& event, Now now);

  // When to step with a Tick; nullopt if nothing is pending.
  absl::optional<BootTime> NextDeadline() const;

  // The records that memory stands for: equal to what the steps have persisted.
  std::map<std::string, std::string> Snapshot() const;

  // One Task as memory holds it.
  struct Entry {
    capstan::type::v1::DesiredTask order;
    TaskRecord record;

    // What follows is not stored.
    // The call under way; 0 if none.
    Ticket ticket = 0;
    // PREPARE: next part to do (see agent_core_prepare.cc), and what came of those before. It
    // becomes the record when the Task is prepared; after a restart PREPARE is done from its
    // beginning.
    int part = 0;
    TaskRecord draft;
    std::string bundle_directory;
    // Failed attempts of what is in hand; while `waiting`, nothing is done before `retry_at`.
    int attempts = 0;
    bool waiting = false;
    BootTime retry_at;
    // Until when it is worth to ask for an identity; set by the first attempt that failed.
    absl::optional<BootTime> identity_until;
    // START: the ports were found free.
    bool ports_checked = false;
    bool logs_shipped = false;
    // The deadline last given to the shim.
    BootTime deadline_given = BootTime::InfinitePast();
    // The deadline that the shim has said it keeps; absent before it has said one.
    absl::optional<BootTime> deadline_kept = absl::nullopt;
    // Of a Task whose trace is recorded: the stage that was stored last, and since when it is at
    // it.
    TaskRecord::Stage told_stage = TaskRecord::STAGE_UNSPECIFIED;
    absl::Time stage_time = absl::InfinitePast();
  };

  // For display and metrics.
  const std::map<session::TaskId, Entry>& tasks() const { return tasks_; }
  int64_t incarnation() const { return self_.incarnation(); }
  bool up_connected() const { return up_.has_value(); }
  bool discovered() const { return discovered_; }
  absl::optional<BootTime> confirmed_at() const { return confirmed_at_; }
  // True if no Task has, or may have, a process.
  bool AllEnded() const;
  // True if nothing of any Task is left on the machine: no process, cgroup, folder.
  bool AllRemoved() const;
  // The time by which a Task is dead as things stand; nullopt if it has no process.
  absl::optional<BootTime> KillTime(const Entry& entry) const;

 private:
  struct Up {
    SessionId session = 0;
    session::RenewalBook renewals;
    BootTime next_renewal;
    int64_t sent_sequence = 0;
    bool collecting = false;
    std::set<session::TaskId> named;
  };
  // One entry of the journal: a Task, one that is gone, or the Node.
  struct JournalEntry {
    enum class Kind { kTask, kGone, kNode } kind = Kind::kTask;
    session::TaskId id;
  };

  explicit AgentCore(CoreConfig config);

  // agent_core.cc
  void OnDiscovered(const std::vector<Remains>& found, Now now);
  void Adopt(const session::TaskId& id, Entry& entry, const Remains* found);
  void OnAnswered(const Answered& answered, Now now);
  void OnNodeObserved(capstan::type::v1::NodeObservation next);
  void OnCheckpointAsked(const CheckpointAsked& asked);
  // Does what the Tasks' stages and orders call for, except where a call is under way.
  void AdvanceAll(Now now);
  void Advance(const session::TaskId& id, Entry& entry, Now now);

  // agent_core_session.cc
  void OnUpConnected(SessionId session, Now now);
  void OnUpMessage(const capstan::type::v1::SessionDown& message, Now now);
  void OnDesired(const capstan::type::v1::DesiredTasks& desired);
  void OnOrder(const session::TaskId& id, const capstan::type::v1::DesiredTask& order);
  void OnNewOrder(const session::TaskId& id, const capstan::type::v1::DesiredTask& order);
  void HoldGrantOf(const session::TaskId& id, const Entry& entry);
  void OnForgotten(const session::TaskId& id);
  void OnSyncComplete(const std::set<session::TaskId>& named);
  void OnRenewalAnswer(const capstan::type::v1::RenewalAnswer& answer);
  bool AcceptToken(const capstan::type::v1::FencingToken& token);
  void Renew(Now now);
  // How often the Tasks that are here now need it.
  absl::Duration RenewEvery() const;
  void FlushJournal(Now now);
  capstan::type::v1::TaskObservation Observe(const session::TaskId& id, const Entry& entry,
                                             Now now) const;

  // agent_core_prepare.cc
  void Prepare(const session::TaskId& id, Entry& entry);
  void OnPrepareAnswer(const session::TaskId& id, Entry& entry, const Answered& answered, Now now);
  void PrepareFailed(const session::TaskId& id, Entry& entry, const std::string& message);
  // Reserves the ports that the launch names; false if there are not that many.
  bool PickPorts(const session::TaskId& id, const capstan::type::v1::TaskLaunch& launch,
                 TaskRecord& record);

  // Gives the Task its whole GPUs out of those that there are.
  absl::Status PickGpus(const session::TaskId& id, Entry& entry,
                        const std::vector<WholeGpu>& found);

  // agent_core_run.cc
  void Start(const session::TaskId& id, Entry& entry, Now now);
  void OnStartAnswer(const session::TaskId& id, Entry& entry, const Answered& answered, Now now);
  void Watch(const session::TaskId& id, Entry& entry, Now now);
  void Finish(const session::TaskId& id, Entry& entry);
  void OnFinishAnswer(const session::TaskId& id, Entry& entry, const Answered& answered, Now now);
  void Collect(const session::TaskId& id, Entry& entry);
  void OnCollectAnswer(const session::TaskId& id, Entry& entry, const Answered& answered, Now now);
  void Erase(const session::TaskId& id);
  void OnShimStatus(const session::TaskId& id, Entry& entry,
                    const capstan::nodeagent::v1::ShimStatus& status);
  void DecideEnd(const session::TaskId& id, Entry& entry, capstan::type::v1::TaskEnd end,
                 bool must_kill);
  void SetEnded(const session::TaskId& id, Entry& entry);
  // Whether a Task that has not ended was given the same MIG instance: it is removed with that one.
  bool AnotherHasItsInstance(const session::TaskId& id, const Entry& entry) const;
  void GiveControl(const session::TaskId& id, Entry& entry);
  void Serve(const session::TaskId& id, const Entry& entry);
  void Keep(const session::TaskId& id, const Entry& entry);
  void Ship(const session::TaskId& id, const Entry& entry);

  // Whether the Task is to be ended, or not begun, and why.
  absl::optional<capstan::type::v1::Stop> StopOf(const Entry& entry) const;
  Ticket NewTicket(Entry& entry);
  // Waits before the part in hand is tried again.
  void BackOff(Entry& entry, Now now);
  // Stores the record; `changed` if what is reported has changed too.
  void Persist(const session::TaskId& id, Entry& entry, bool changed);
  // Tells of the stage that the Task has left, if it has left one.
  void TellStage(const session::TaskId& id, Entry& entry);
  int64_t NextSequence();
  void PersistSelf();

  CoreConfig config_;
  capstan::nodeagent::record::v1::Self self_;
  bool discovered_ = false;
  bool synced_ = false;
  bool draining_ = false;
  absl::optional<BootTime> confirmed_at_;
  absl::optional<Up> up_;
  std::map<session::TaskId, Entry> tasks_;
  PortsBook ports_;
  GpuBook gpus_;
  absl::optional<capstan::type::v1::NodeObservation> node_;
  int64_t node_sequence_ = 0;
  // Not yet acknowledged by the executor, by sequence.
  std::map<int64_t, JournalEntry> journal_;
  Ticket last_ticket_ = 0;

  // The step being made.
  session::PersistSet persist_;
  std::vector<Effect> after_;
  absl::Time step_time_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_CORE_AGENT_CORE_H_
