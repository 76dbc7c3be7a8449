#ifndef CAPSTAN_SERVICES_EXECUTOR_CORE_EXECUTOR_CORE_H_
#define CAPSTAN_SERVICES_EXECUTOR_CORE_EXECUTOR_CORE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/session/lower_side.h"
#include "libs/session/persist_set.h"
#include "libs/session/task_id.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "services/executor/core/node_book.h"
#include "services/executor/core/step.h"
#include "services/executor/core/task_book.h"

namespace capstan::executor {

struct CoreConfig {
  // Id of the Cluster this executor speaks for.
  std::string cluster;
  // A Node not heard for this long is silent.
  absl::Duration suspect_after = absl::Seconds(15);
  // Range from which Jobs get their Unix uids, both ends included; 0 for none (Tasks isolated by
  // user namespaces instead).
  int64_t first_uid = 0;
  int64_t last_uid = 0;
};

// The decisions of an executor: passes the scheduler's orders to the agents, their reports to the
// scheduler, and the age of the scheduler's confirmation down. Pure: every effect is a value.
//
// Guarantees, each tested on random orders of events:
// - Nothing is sent down, up or acknowledged before what it rests on is stored.
// - A token lower than the highest stored one is refused and its session dropped.
// - An age answered to an agent is never less than the time since the confirming renewal was sent.
//   After a restart nothing is answered before a renewal of this life was answered, and a Node that
//   was reported silent is not answered before the scheduler acknowledged its return.
// - An agent is told that a snapshot is complete only after a complete snapshot of this life came
// from
//   the scheduler, so that a lost store here collects nothing there.
// - A Job's Unix uid is stored before a Task of it is sent to an agent, and given to another Job
// only
//   after every Node reported the Job's Tasks gone.
// Bounded by the Tasks and Nodes of the Cluster: the journal holds one entry for each.
class ExecutorCore {
 public:
  // `records`: everything under kPrefix, in any order. DATA_LOSS if one cannot be read.
  static absl::StatusOr<ExecutorCore> Load(CoreConfig config,
                                           const std::vector<store::KeyValue>& records, Now now);

  Step Apply(const Event& event, Now now);

  // When to step with a Tick; nullopt if nothing is pending.
  absl::optional<BootTime> NextDeadline() const;

  // The records that memory stands for: equal to what the steps have persisted.
  std::map<std::string, std::string> Snapshot() const;

  // For display and metrics.
  int64_t incarnation() const { return self_.incarnation(); }
  const capstan::type::v1::FencingToken& highest_token() const { return self_.highest_token(); }
  bool up_connected() const { return up_.has_value(); }
  // True once a complete snapshot of the scheduler has come in this life.
  bool synced() const { return synced_; }
  absl::optional<BootTime> confirmed_at() const { return confirmed_at_; }
  const TaskBook& tasks() const { return tasks_; }
  const NodeBook& nodes() const { return nodes_; }
  size_t unacknowledged() const { return journal_.size(); }

 private:
  // The stream to the scheduler.
  struct Up {
    SessionId session = 0;
    session::RenewalBook renewals;
    BootTime next_renewal;
    // Observations up to this sequence have been sent.
    int64_t sent_sequence = 0;
    // The last sequence of each report since the first that is not acknowledged yet.
    std::deque<int64_t> under_way;
    // True while the chunks of a snapshot come in, and the Tasks they name.
    bool collecting = false;
    std::set<session::TaskId> named;
  };
  // An agent's stream.
  struct Agent {
    std::string node;
    bool greeted = false;
    // A snapshot that was complete has been sent.
    bool sync_sent = false;
    // Tasks named in the agent's first report; null once it is complete.
    std::unique_ptr<std::set<session::TaskId>> named;
  };
  // One entry of the journal: a Task, or a Node.
  struct Entry {
    absl::optional<session::TaskId> task;
    std::string node;
  };

  explicit ExecutorCore(CoreConfig config)
      : config_(std::move(config)), tasks_(config_.first_uid, config_.last_uid) {}

  // executor_core_up.cc
  void OnUpConnected(SessionId session, Now now);
  void OnUpMessage(const capstan::type::v1::SessionDown& message, Now now);
  void OnDesired(const capstan::type::v1::DesiredTasks& desired, Now now);
  void OnDesiredTask(const session::TaskId& id, const capstan::type::v1::DesiredTask& task,
                     Now now);
  // Puts the executor's own part into the order's trace: what the agent does is its child.
  void ContinueTrace(const session::TaskId& id, const TaskEntry& entry,
                     capstan::type::v1::DesiredTask* wanted, Now now);
  void OnUpSyncComplete(const std::set<session::TaskId>& named);
  // The Job's uid, chosen and stored now if it has none; 0 if none is left.
  int64_t UidForJob(const std::string& job_uid);
  void StoreUid(const std::string& job_uid, int64_t uid);
  void OnRenewalAnswer(const capstan::type::v1::RenewalAnswer& answer);
  void OnObservationsAck(const capstan::type::v1::ObservationsAck& ack);
  // False, and the session is dropped, if the token is lower than one seen before.
  bool AcceptToken(const capstan::type::v1::FencingToken& token);
  void Renew(Now now);
  // Sends what the journal holds beyond what was sent, unless much is under way: what changes again
  // until that is acknowledged is sent once.
  void FlushJournal();

  // executor_core_agents.cc
  void OnAgentConnected(SessionId session, const std::string& node);
  void OnAgentMessage(SessionId session, const capstan::type::v1::SessionUp& message, Now now);
  void OnAgentHello(SessionId session, Agent& agent, const capstan::type::v1::Hello& hello);
  void OnAgentRenewal(SessionId session, const Agent& agent,
                      const capstan::type::v1::Renewal& renewal, Now now);
  void OnAgentObservations(SessionId session, Agent& agent,
                           const capstan::type::v1::Observations& observations, Now now);
  void OnAgentTask(const std::string& node, const capstan::type::v1::TaskObservation& task);
  void OnAgentGone(const std::string& node, const session::TaskId& id, Now now);
  void OnAgentSyncComplete(const std::string& node, const std::set<session::TaskId>& named,
                           Now now);
  void HeardNode(const std::string& node, Now now);
  void CloseAgentSession(SessionId session, absl::Status status);
  void SendSnapshot(SessionId session, Agent& agent);
  void FindSilentNodes(Now now);

  // Both. Notes that the agent of the Task's Node must hear of it at the end of the step.
  void MarkForAgent(const session::TaskId& id);
  void SendMarked();
  int64_t NextSequence();
  // Stores an observation under a new sequence.
  void JournalTask(const session::TaskId& id);
  void JournalNode(const std::string& node);
  // The same for a Node that is to be renewed once the scheduler has acknowledged this report.
  void JournalReturn(const std::string& node);
  // Ends a Task by decision of the executor: no process of it can exist.
  void EndHere(const session::TaskId& id, capstan::type::v1::TaskEnd::Cause cause,
               const std::string& message, Now now);
  // Forgets a Task: ends it if it lives, removes it once the Node says that it is gone.
  void Forget(const session::TaskId& id);
  void Erase(const session::TaskId& id);
  void PersistSelf();

  CoreConfig config_;
  record::v1::Self self_;
  bool fresh_ = false;
  bool synced_ = false;
  // When the newest answered renewal of this life was sent, less the age answered.
  absl::optional<BootTime> confirmed_at_;
  absl::optional<Up> up_;
  TaskBook tasks_;
  NodeBook nodes_;
  std::map<SessionId, Agent> agents_;
  // Those that have said Hello, and those that have not: at most one of a Node each.
  std::map<std::string, SessionId> sessions_by_node_;
  std::map<std::string, SessionId> ungreeted_by_node_;
  // Not yet acknowledged by the scheduler, by sequence.
  std::map<int64_t, Entry> journal_;

  // The step being made.
  session::PersistSet persist_;
  std::vector<Effect> after_;
  std::set<session::TaskId> marked_;
};

}  // namespace capstan::executor

#endif  // CAPSTAN_SERVICES_EXECUTOR_CORE_EXECUTOR_CORE_H_
