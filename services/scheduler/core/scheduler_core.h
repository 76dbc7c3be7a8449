#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_SCHEDULER_CORE_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_SCHEDULER_CORE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "libs/store/store.h"
#include "libs/time/clock.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/deadlines.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/explain.h"
#include "services/scheduler/core/held_book.h"
#include "services/scheduler/core/leases.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/placer.h"
#include "services/scheduler/core/queue_book.h"
#include "services/scheduler/core/quota/queue_order.h"
#include "services/scheduler/core/quota/resources.h"
#include "services/scheduler/core/retry.h"
#include "services/scheduler/core/standing_book.h"
#include "services/scheduler/core/usage.h"

namespace capstan::scheduler {

// The scheduler's decisions: state, event and time in; state and effects out. Built from the stored
// records at the start of a term of leadership, thrown away at its end. No I/O, no clock, no
// thread; owned by the engine's strand. Equal inputs give equal outputs.
//
// Guarantees, as far as the engine keeps to Step's contract:
// - Nothing is acknowledged, sent or begun before what it rests on is stored: rebuilding the core
// from
//   the records at any time loses no promise.
// - A gang is placed all or none, and its next generation only once the end of every Task of the
// one
//   before is stored: reported by its executor, or given up after replace_after without
//   confirmation (never while the observer is suspected, on an UNFENCED Node, or on a pausable
//   one).
// - No Node is given more than it has (what it loses later is not taken away from running Tasks).
// - The work of one step is bounded: what is left over is done at the next Tick, which NextDeadline
//   asks for at once. A Job that only waits for room asks for no Tick.
class SchedulerCore {
 public:
  // Takes every record below kKeyPrefix, in any order. `placer` may be null: a TightPlacer. `pool`
  // may be null: then what Jobs have in common with those of others is not shared with them.
  static absl::StatusOr<std::unique_ptr<SchedulerCore>> Load(
      const CoreConfig& config, const std::vector<store::KeyValue>& records,
      std::unique_ptr<Placer> placer = nullptr, std::shared_ptr<RecordPool> pool = nullptr);

  // The same of a model that was built from those records, and of what it says of stale chunks.
  static std::unique_ptr<SchedulerCore> Of(const CoreConfig& config, Model model,
                                           std::vector<store::Delete> stale);

  // The first event must be LeadershipGained.
  Step Apply(const Event& event, Now now);

  // When a Tick is wanted; absl::nullopt if nothing is pending. InfinitePast: at once.
  absl::optional<BootTime> NextDeadline() const;

  // State ahead of the store by what is not committed yet: for tests and metrics, not for readers.
  // What it gives of Jobs is good until the next event.
  const Model& model() const { return model_; }
  const LeaseTable& leases() const { return leases_; }
  // What its gangs take, as of the last round or placement.
  const NodeUsage& usage() const { return usage_; }
  // The Queues, as of now.
  const QueueBook& queue_book() const { return queue_book_; }
  // Rounds of placement so far.
  int64_t rounds() const { return rounds_; }
  // None is before.
  BootTime round_at() const { return round_at_; }
  size_t waiting_jobs() const {
    return queue_book_.waiting() + making_room_.size() + returning_.size();
  }

  // A core for asking what would happen (what_if.h), whose steps nobody carries out. It has led
  // from `now` on for as long as it takes, by what `model` holds: each Cluster with an ACTIVE Node
  // has an executor that hears all of these, what was tried in vain need not be tried again, and a
  // start rate that a Job waits for is used up.
  static std::unique_ptr<SchedulerCore> Suppose(const CoreConfig& config, Model model,
                                                const Now& now);
  // Nodes that change all at once. Those removed, cordoned and uncordoned must be there; the
  // Clusters of those added must have an ACTIVE Node.
  struct SupposedNodes {
    std::vector<std::pair<std::string, capstan::type::v1::NodeObservation>> added;  // by Cluster
    // Their Tasks are lost, and all others of the same gangs end.
    std::set<NodeId> removed;
    std::set<NodeId> cordoned;
    std::set<NodeId> uncordoned;
  };
  // To be followed by an event, which is what begins a round.
  void SupposeNodes(const SupposedNodes& nodes, const Now& now);
  // Finds out what a round at `now` begins with, if it is one because a Job is submitted then: that
  // is the same whatever the Job is. Of no use if anything else is the next event.
  void ForeseeRound(const Now& now);
  // Where all Nodes stand, sorted by id. A round that was foreseen is not any more. Of as many as
  // there were in `seen` each stays where it is in memory.
  void SeeNodes(absl::Time now, std::vector<NodeStanding>* seen);

 private:
  struct Session {
    SessionId id = 0;
    // The first report is complete.
    bool synced = false;
    // Named in the first report.
    std::set<std::pair<std::string, int>> tasks_named;
    // Named in this session, and not silent.
    std::set<NodeId> nodes_heard;
    // Of those, the ids whose return is not acknowledged yet.
    std::set<std::string> returned;
    // Deltas make no sense before the snapshot, which the end of the step sends.
    bool snapshot_due = false;
  };
  // What of a Job is to be written at the end of the step.
  struct DirtyJob {
    bool spec = false;
    bool placements = false;
    bool gang = false;  // head
    std::set<int> task_chunks;
    int64_t dropped_generation = 0;
    // Orders of capacity that change with it, and are not written yet.
    std::set<std::string> orders;
    std::vector<store::Put> more_puts;
    std::vector<store::Delete> more_deletes;
    std::vector<capstan::event::v1::JobEvent> events;
  };
  using OrderKey = std::tuple<int, int64_t, std::string>;

  SchedulerCore(const CoreConfig& config, Model model, std::vector<store::Delete> garbage,
                std::unique_ptr<Placer> placer);

  // Calls: core_calls.cc.
  void On(const LeadershipGained& event);
  void On(const CreateJob& event);
  // The Job that a call names; null if there is none or it has another etag: then it is answered.
  JobEntry* FindNamed(CallId call, const std::string& name, const std::string& etag);
  void On(const CancelJob& event);
  // core_update.cc.
  void On(const UpdateJob& event);
  // Has it become so; false if it is already. Of an array, itself alone.
  bool Change(JobEntry* job, const rec::JobChange& change);
  // With all of its elements that have not ended.
  void ChangeArray(JobEntry* array, const rec::JobChange& change);
  void ChangeSpec(JobEntry* job, const rec::JobChange& change);
  void SetHold(JobEntry* job, bool hold);
  // It would stand in its Queue now, and is held. It must be in no order.
  void Withhold(JobEntry* job);
  // Takes it into the model, to be stored.
  JobEntry* AddJob(JobEntry job);
  void Cancel(JobEntry* job);
  void On(const CreateQueue& event);
  // core_queues.cc.
  void On(const UpdateQueue& event);
  // Stops what runs in Queues that are drained, as much as fits the step.
  void DrainQueues();
  // The Job may not start yet by the rates of its Queues; it is tried again when it may. `told`, if
  // given: whether its record did not say so before.
  bool WaitsForRate(JobEntry* job, bool* told = nullptr);
  // What no round looks at, since its Queue starts nothing.
  void SettleHeld();
  void On(const CordonNode& event);
  void On(const UncordonNode& event);
  void On(const ConfirmSilence& event);
  // core_orders.cc.
  void On(const CreateCapacityOrder& event);
  void On(const DeleteCapacityOrder& event);
  // core_maintenance.cc.
  void On(const CreateMaintenanceWindow& event);
  void On(const DeleteMaintenanceWindow& event);
  // Windows begin, and are over.
  void TurnMaintenance();
  // Stops what runs where it may not, as much as fits the step.
  void EvictForMaintenance();
  absl::StatusOr<std::string> Replayed(const std::string& key, const std::string& body_hash) const;
  void RememberRequest(const std::string& key, const std::string& body_hash,
                       const std::string& made, std::vector<store::Put>* puts,
                       std::vector<store::Delete>* deletes);
  absl::Status CheckNewJob(const CreateJob& event, const std::string& name) const;
  void ReplyWithNode(CallId call, const NodeId& id);

  // Sessions: core_sessions.cc.
  void On(const HelloReceived& event);
  void On(const RenewalReceived& event);
  void On(const ObservationsReceived& event);
  void On(const SessionClosed& event);
  Session* FindSession(SessionId id, std::string* cluster);
  void Heard(const std::string& cluster);
  void ObserveNode(const std::string& cluster, const capstan::type::v1::NodeObservation& reported,
                   Session* session);
  void SilenceNode(const NodeId& id, Session* session);
  void ObserveTask(const std::string& cluster, const capstan::type::v1::TaskObservation& task,
                   Session* session);
  void CompleteSync(const std::string& cluster, Session* session);
  void RefreshNodeStates(const std::string& cluster);
  void SendDesired(const std::string& cluster);

  // Gangs, and their data: core_gangs.cc, core_data.cc.
  void On(const DataProgressed& event);
  void On(const DataReady& event);
  void On(const DataFailed& event);
  void On(const PinsReleased& event);
  void On(const Tick& event);
  // It waits for room from now on, unless it is held.
  void Await(JobEntry* job);
  void Enqueue(JobEntry* job);
  void Dequeue(const JobEntry& job);
  // Keeps it off the Node of the end that decided over its generation.
  void AvoidNode(JobEntry* job, absl::Duration avoid_for);
  // Lets Jobs be placed again where they were not to be until now.
  void ForgetAvoided();
  // Asks for its data if that is not there; else it stands in its Queue.
  void Begin(JobEntry* job);
  void BackOff(JobEntry* job, absl::Duration wait, const std::string& why);
  void AskForData(JobEntry* job);
  void ChooseDataCluster(JobEntry* job);
  void ClustersChanged();
  // Carries the gang as far as its state allows.
  void Advance(JobEntry* job);
  void StartGang(JobEntry* job);
  // Counts to its time limit, if it has one and runs; and no more.
  void Limit(const JobEntry& job);
  void Unlimit(const JobEntry& job);
  // Of a disruption whom it is for, by name, and why, in words.
  void StopGang(JobEntry* job, capstan::type::v1::Stop::Reason reason,
                const std::string& beneficiary = "", const std::string& need = "");
  void EndGeneration(JobEntry* job, bool success);
  void Finish(JobEntry* job, capstan::scheduler::v1::Job::State state, const std::string& reason,
              const std::string& message);
  void GiveUpSilent();
  BootTime NextGiveUp() const;
  bool MayGiveUp(const NodeId& node, const rec::NodeRecord& record) const;
  void WatchGang(const JobEntry& job);

  // Jobs that wait for others to end: core_dependencies.cc.
  absl::Status CheckDependencies(const CreateJob& event, const std::string& name) const;
  struct Awaited {
    std::string uid;
    capstan::scheduler::v1::Job::State state;
  };
  // By name; also an element that is in the archive while its array is not.
  absl::optional<Awaited> FindAwaited(const std::string& name) const;
  // Begins it, or lets it wait for those that it comes after.
  void BeginAfterOthers(JobEntry* job);
  // The same, of one that has learned of a change.
  void BeginOrWait(JobEntry* job);
  void WatchDependencies(const JobEntry& job);
  void ForgetDependencies(const JobEntry& job);
  // Tells those that wait for Jobs that have ended, as much as fits the step.
  void SettleDependencies();
  void SettleDependency(JobEntry* job, const std::string& ended);
  void JoinSingleton(const JobEntry& job);
  void SetSingletonBehind(JobEntry* job);
  // It is over: tells who came next.
  void LeaveSingleton(const JobEntry& job);
  // What a leader before did not come to telling.
  void ResumeSingletons();

  // Arrays: core_arrays.cc.
  absl::Status CheckArray(const CreateJob& event, const std::string& name) const;
  // Those that are not there.
  void MakeElements(JobEntry* array);
  // It waits until fewer elements of its array have begun; else it is counted as one of them.
  bool AwaitsTurn(JobEntry* job);
  void GiveTurns(const JobEntry& array);
  void ElementEnded(const JobEntry& element, bool had_begun);
  // If all of its elements have ended.
  void FinishArray(JobEntry* array);
  // Of the arrays that are cancelled, as much as fits the step.
  void CancelElements();
  void RestoreTurn(const JobEntry& element);
  // What a leader before did not come to.
  void ResumeArrays(const std::vector<std::string>& of_arrays);

  // Rounds of placement: core_round.cc, and core_order.cc from TryInOrder on.
  struct RoundWork;
  // kKindLeft: a try of each gang of its kind behind it would end so in this round, and write
  // nothing; kKindLeftUntilStart: until somebody starts.
  enum class Tried { kLeft, kKindLeft, kKindLeftUntilStart, kPlaced, kMakesRoom };
  void Round();
  void BeginRound(RoundWork* work);
  // Those not heard of in their executor's present session.
  std::set<NodeId> UnreportedNodes() const;
  // What ended Tasks had of those gangs that return at once, taken out of what is free; not if one
  // of their Tasks is on a silent Node. By uid.
  std::map<std::string, std::map<int, Amounts>> KeepForReturning(RoundWork* work) const;
  // Keys of the labels that a gang which waits, or holds a place, asks by.
  std::set<std::string> LabelKeys() const;
  // Gangs that return to their places: core_returning.cc.
  struct Returned {
    std::string uid;
    // Positions of Nodes by rank, -1 where it can be no more.
    std::vector<int> places;
    std::vector<MoreTasks> additions;
    absl::optional<GangPlacement> placement;
    bool is_whole() const { return std::find(places.begin(), places.end(), -1) == places.end(); }
  };
  void Return(JobEntry* job, const std::string& why);
  // Ends the wait of a gang for its place: from now on it takes its turn.
  void ForgetReturn(JobEntry* job);
  // Before anything is placed: takes what they had out of what is free, or lets them wait as others
  // do once that has lasted too long.
  void KeepForReturned(RoundWork* work);
  // Adds what is kept so to what is held.
  void HoldForReturned(RoundWork* work) const;
  // Finds their places, before anybody else gets one, and puts them there once all others were
  // asked: elastic ones with more, if so much is left.
  void FindPlacesForReturned(RoundWork* work);
  void PlaceReturned(bool may_have_more, RoundWork* work);
  // Whether it has said what it hears, or is known to be silent.
  bool IsHeard(const std::string& cluster) const;
  // Where it goes now: where it was, or as much of it as is left with others near that, or elsewhere
  // as a whole.
  absl::optional<GangPlacement> FindPlaceAgain(const JobEntry& job, const Returned& returned,
                                               RoundWork* work) const;
  // The level that it prefers, if it was in one domain of that; else the one that it requires.
  capstan::scheduler::v1::Topology::Level LevelStoodIn(const JobEntry& job) const;

  // Gangs that are moved to make room in one piece for MIG instances: core_repartition.cc.
  // Whether it may have to be moved some day for somebody who waits now.
  bool MayBeInTheWay(const JobEntry& job) const;
  // Whether others are moved for the Job.
  static bool MovesFor(const JobEntry& job);
  // Looks for gangs to move for the order's next gang, and has them begin.
  bool TryRepartition(const QueueOrder& order, JobEntry* job, const GangRequest& request,
                      RoundWork* work);
  // After a round that has searched in vain.
  void PauseMoveSearches(const RoundWork& work);
  // Stops it; its next generation is to be there.
  void MoveGang(JobEntry* job, const rec::PlannedPlace& to, const std::string& beneficiary);
  // One move at a time.
  bool AnyMoves() const;
  // Some time must have passed since the last one, which a leader before may have begun.
  void RestorePause(const JobEntry& job);
  // What is used as the Queues count, and yet free: the places of those that have ended to be
  // moved, and of the one that they are moved for. As amounts below 0.
  absl::optional<Amounts> TakenByMoves() const;
  // Before anybody else is placed: those that are moved go where they are to, or that is kept for
  // them while others have to end first.
  void KeepMoves(RoundWork* work);
  // Whether those that are moved for the Job are all on their way.
  bool IsPlanWhole(const JobEntry& job, const RoundWork& work) const;
  void StartMoved(JobEntry* job, const GangRequest& request, const GangPlacement& placement,
                  RoundWork* work);
  // Once the room of the one that they were moved for is held: a place for those that cannot go
  // where they were to.
  void PlaceMovedElsewhere(RoundWork* work);

  // Gangs that grow: core_growth.cc.
  // Whether the gang may grow some day, as it runs.
  static bool MayGrow(const JobEntry& job);
  void WatchGrowth(const JobEntry& job);
  void ForgetGrowth(const JobEntry& job);
  // After room has changed, or who waits, it is worth a look.
  void ArmGrowth();
  bool GrowthDue() const { return !growers_.empty() && growth_at_ <= now_.boot; }
  // At the end of a round that has considered all that waits.
  void GrowGangs(RoundWork* work);
  // What the gang can have more now, if that is enough; takes its place in the round.
  std::vector<MoreTasks> FindGrowth(const JobEntry& job, RoundWork* work) const;
  // Places those that others were ended for, or goes on keeping their places.
  void PlaceMadeRoomFor(RoundWork* work);
  // Places the one that room is kept for, or goes on keeping it.
  void KeepReservation(RoundWork* work);
  void TryInOrder(RoundWork* work);
  // Whether TryNext would leave the whole kind of the order's next gang, and tell it nothing: there
  // may be very many kinds, and to look at a Job takes longer than this.
  bool IsLeftUnseen(const QueueOrder& order, const RoundWork& work) const;
  // What gangs of a kind ask for, and its Shape.
  struct Asked {
    GangRequest request;
    std::string shape;
  };
  // Of the order's next gang, which is the Job's; until it is asked of another one.
  const Asked& AskedBy(const QueueOrder& order, const JobEntry& job);
  // Tries the order's next gang, which is the Job's.
  Tried TryNext(const QueueOrder& order, JobEntry* job, RoundWork* work);
  // Whether the Job's record may say anew why it waits for room.
  bool MayRevise(const JobEntry& job, RoundWork* work) const;
  // Whether it is worth looking for somebody to end for the order's next gang.
  bool MayAskForVictims(const QueueOrder& order, const RoundWork& work) const;
  // Whether it might delay a Job of its Queue that comes before it, and that room is kept for: then
  // nobody of that Queue ends for it, as it would not start in what is free either.
  bool StaysBehindReserved(const JobEntry& job, const GangRequest& request,
                           const RoundWork& work) const;
  bool TryMakeRoom(const QueueOrder& order, JobEntry* job, const GangRequest& request,
                   RoundWork* work);
  // Stops them for the Job, which is to say so.
  void EndFor(JobEntry* job, const std::vector<Victim>& victims, RoundWork* work);
  void TryReserve(JobEntry* job, const GangRequest& request, RoundWork* work);
  // Drops what was learned of Shapes that no room can be kept for, if the fleet is another.
  void ReviseHopeless();
  void ForgetReservation();
  void PlaceIn(JobEntry* job, const GangRequest& request, const GangPlacement& placement,
               RoundWork* work);
  void Place(JobEntry* job, const std::vector<NodeCapacity>& nodes, const GangPlacement& placement);
  // Someone waits for whom the Job might be ended, as far as Queue and priority go.
  bool MayWant(const JobEntry& job) const;
  // For how long the gang has run.
  absl::Duration RanFor(const JobEntry& job) const;
  // How long a Job of its Queue must run before it may be ended for another.
  absl::Duration MinRuntime(const JobEntry& job) const;
  // What a leader before had begun.
  void ResumeMakingRoom();
  // Has the victim end, or give up what it has beyond its least, as the beneficiary's record says.
  void EndForOther(JobEntry* victim, const rec::JobStateRecord::Victim& record,
                   const JobEntry& beneficiary);

  // Orders of capacity: core_orders.cc.
  void RestoreOrders();
  void ExpireOrders();
  void RemoveOrder(const std::string& id);
  // Other Nodes are kept than before, or for others.
  void OrdersChanged();
  // Keeps its Nodes until a full round has looked for a gang to nominate.
  void SeekNominee(const std::string& id);
  // The full round is over.
  void ConcludeSeeking();
  bool IsNominee(const JobEntry& job) const;
  // Lets go of Jobs that do not wait for their orders any more.
  void SettleOrders();
  // If any order is the Job's, or is to be: it waits for that.
  bool Nominate(JobEntry* job);
  // Nodes of orders that a gang is looked for.
  void KeepOrdered(RoundWork* work) const;
  // What is asked for the Job, with the orders on whose Nodes it may be.
  GangRequest RequestOf(const JobEntry& job) const;
  // It was placed: on Nodes of which orders?
  void UseOrders(const JobEntry& job);

  // What Queues used in the past: core_usage.cc.
  void RestoreUsage();
  // Tells the Queues' book of changed Queues, before anything else happens.
  void RefreshTree();
  void SetTree(const std::set<std::string>& accelerators);
  void WriteUsage();

  // Ended Jobs on their way out: core_retention.cc.
  void On(const JobsArchived& event);
  void On(const ArchiveFailed& event);
  // Hands the next ones to the archive, if it is time.
  void Retire();
  void ArmRetirement();
  void RemoveJob(const std::string& uid);

  // Common: scheduler_core.cc.
  // In proportion to what a round costs whatever it places.
  bool StepFull() const {
    return dirty_jobs_.size() >= std::max(kMinJobsPerStep, model_.nodes.size() / 8);
  }
  // Somebody waits who was not tried, or might find room now.
  bool RoundDue() const { return (room_changed_ && waiting_jobs() > 0) || !fresh_.empty(); }
  OrderKey OrderOf(const JobEntry& job) const;
  DirtyJob& Touch(const JobEntry& job) { return dirty_jobs_[job.uid()]; }
  // Its record is another.
  void TouchNode(const NodeId& id) {
    dirty_nodes_.insert(id);
    standing_book_.SetChanged(id);
  }
  void TouchTask(const JobEntry& job, int rank);
  void UpdateUsage();
  // False if the record said all that before.
  bool SetState(JobEntry* job, capstan::scheduler::v1::Job::State state, const std::string& reason,
                const std::string& message);
  // An event of the state that it is in.
  void TellState(const JobEntry& job, const std::string& reason, const std::string& message);
  void TellTask(const JobEntry& job, int rank);
  JobEntry* FindJob(const std::string& uid);
  void Flush();
  Write WriteOf(JobEntry* job, const DirtyJob& dirty);
  // Before the Job is placed: if its generation before has lost Tasks, or ended, in this step, that
  // is written by itself and ahead of all that is placed, since others may have that room by now.
  void WriteEndApart(JobEntry* job);

  static constexpr size_t kMinJobsPerStep = 32;

  const CoreConfig config_;
  const std::unique_ptr<Placer> placer_;
  // Durable: changed only together with a mark in what follows.
  Model model_;
  std::vector<store::Delete> garbage_;

  // Volatile: made from the model by LeadershipGained, and by what comes in afterwards.
  bool leading_ = false;
  capstan::type::v1::FencingToken token_;
  LeaseTable leases_;
  NodeUsage usage_{/*keeps_changed=*/true};
  QueueBook queue_book_;
  bool queues_changed_ = true;  // since queue_book_ was told
  HeldBook held_book_;
  StandingBook standing_book_;
  int64_t next_submit_sequence_ = 1;
  std::multimap<absl::Time, std::string> requests_by_time_;  // keys
  std::map<std::string, Session> sessions_;                  // by cluster, after Hello
  std::map<SessionId, std::string> session_clusters_;
  std::set<std::string> clusters_unheard_;  // node states not yet refreshed since the start
  std::set<NodeId> draining_;
  std::set<NodeId> given_up_;
  // Of those that wait for room, which queue_book_ knows, the ones that were not tried yet.
  std::set<OrderKey> fresh_;
  bool room_changed_ = false;
  // The next round is not before.
  BootTime round_at_ = BootTime::InfinitePast();
  int64_t rounds_ = 0;
  std::shared_ptr<RoundWork> foreseen_;
  bool drain_due_ = true;  // somebody may run whose Queue is drained
  // When the next maintenance window begins or is over; past: to be found out.
  absl::Time maintenance_at_ = absl::InfinitePast();
  bool eviction_due_ = false;                   // somebody may run where a window evicts
  Deadlines retries_;                           // uids: BACK_OFF
  Deadlines preparing_;                         // uids of gangs that are to be prepared by then
  std::map<std::string, BootTime> started_at_;  // by uid
  std::set<std::pair<BootTime, std::string>> time_limits_;  // uids of what runs and has one
  // When which Job may be placed again on a Node that it stays off; uids, perhaps of Jobs that are
  // over.
  std::set<std::pair<BootTime, std::string>> avoidances_;
  // By uid, the uids of the Jobs that wait for its end; and those of them that have ended, of which
  // not all are told yet.
  std::map<std::string, std::set<std::string>> dependents_;
  std::set<std::string> ended_dependencies_;
  // Uids of Jobs that are not over, in order of submission, by Project and singleton.
  std::map<std::pair<std::string, std::string>, std::map<int64_t, std::string>> singletons_;
  // By uid of an array that bounds them, its elements that have begun and are not over, and those
  // that wait until they may: uids by index.
  struct ArrayTurns {
    int begun = 0;
    std::map<int, std::string> waiting;
  };
  std::map<std::string, ArrayTurns> array_turns_;
  std::set<std::string> cancelling_;  // uids of arrays of which not all elements are told
  std::set<std::string> live_;        // uids of Jobs with a gang that is
  // Jobs that others are ended for; none of those that queue_book_ knows to wait.
  std::set<OrderKey> making_room_;
  // Jobs that are about to return to their places, and until when these are kept; none of those
  // that queue_book_ knows to wait.
  std::map<OrderKey, BootTime> returning_;
  // Uids of Jobs whose gangs are moved, until they are placed again; perhaps of some that are not
  // any more. And when the next may be.
  std::set<std::string> moving_;
  BootTime next_move_at_ = BootTime::InfinitePast();
  // Jobs that run and may grow; of those, since when there was room, without a gap that was seen.
  std::set<OrderKey> growers_;
  std::map<std::string, BootTime> spare_since_;  // by uid
  // When it is worth a look whether somebody may grow, when that was last seen, and with whom it
  // goes on.
  BootTime growth_at_ = BootTime::InfiniteFuture();
  BootTime growth_seen_at_ = BootTime::InfinitePast();
  absl::optional<OrderKey> next_grower_;
  // The waiting Job that room is kept for, or "".
  std::string reserved_;
  // Shapes that would not fit even once all that runs has gone, as far as it was tried with what
  // usable Nodes have in all. They use up no more tries to keep room for somebody.
  std::set<std::string> hopeless_;
  // By QueueBook::KindTerms::number.
  absl::flat_hash_map<uint64_t, std::unique_ptr<Asked>> asked_;
  Amounts hopeless_fleet_;
  // When which order of capacity is void; ids.
  std::set<std::pair<BootTime, std::string>> order_expiries_;
  // Orders that a gang is looked for: their Nodes are kept meanwhile.
  std::set<std::string> seeking_orders_;
  // The next time at which someone who may not be ended yet might be.
  BootTime protected_until_ = BootTime::InfiniteFuture();
  // The next time at which a rate may let somebody start who waits for it.
  BootTime start_rate_at_ = BootTime::InfiniteFuture();
  std::set<std::pair<absl::Time, std::string>> finished_;  // by end; uids
  std::set<std::string> archiving_;  // uids that the archive was asked to take
  BootTime retire_at_ = BootTime::InfiniteFuture();
  bool suspected_told_ = false;
  // Queues of which the store does not know yet what they used, when each was last written, and
  // when the first of them may be again.
  std::set<std::string> usage_unwritten_;
  std::map<std::string, BootTime> usage_written_at_;
  BootTime usage_due_ = BootTime::InfiniteFuture();

  // Of the step in hand.
  Now now_;
  std::map<std::string, DirtyJob> dirty_jobs_;
  // Of those, the ones to be written before the others.
  std::vector<std::string> decisions_;
  // Arrays that are told once all else is written that their elements are, and are as they are to
  // be.
  std::vector<std::string> made_arrays_;
  std::set<NodeId> dirty_nodes_;
  std::set<std::string> dirty_orders_;
  std::set<std::string> dirty_clusters_;
  std::vector<Write> other_writes_;
  std::vector<Effect> replies_;
  std::vector<Effect> effects_;
  StepTally tally_;
  // After everything that is sent: a return acknowledged lets a Node's Tasks live on.
  std::vector<Effect> acks_;
  std::set<std::string> resend_;  // uids
  std::map<std::string, std::vector<capstan::type::v1::DesiredTask>> strays_;
  std::map<std::string, std::vector<capstan::type::v1::TaskKey>> forgotten_;
  std::map<CallId, std::string> job_replies_;  // uid: rendered when the step is complete
  std::map<CallId, NodeId> node_replies_;
  std::map<CallId, std::string> order_replies_;  // ids
  std::map<CallId, std::pair<std::string, std::string>> window_replies_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_SCHEDULER_CORE_H_
