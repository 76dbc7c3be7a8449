#ifndef CAPSTAN_SERVICES_SCHEDULER_ENGINE_H_
#define CAPSTAN_SERVICES_SCHEDULER_ENGINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/store/commit_queue.h"
#include "libs/store/leadership.h"
#include "libs/store/outbox.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "libs/trace/span.h"
#include "services/scheduler/committed_view.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/events.h"
#include "services/scheduler/core/scheduler_core.h"
#include "services/scheduler/ports/data_source.h"
#include "services/scheduler/record_reader.h"
#include "services/scheduler/recorder/flight_recorder.h"

namespace capstan::scheduler {

// How long a round took.
struct RoundTimes {
  // Of the core's step that it was part of.
  absl::Duration decided;
  // From the beginning of that step to its last record being durable.
  absl::Duration durable;
};

struct EngineConfig {
  CoreConfig core;
  // What other replicas read in the leadership key: where this one is reached.
  std::string address;
  absl::Duration leadership_ttl = absl::Seconds(3);
  absl::Duration leadership_margin = absl::Milliseconds(400);
  // True for a store that one process owns (SQLite).
  bool sole_owner = false;
  // Events waiting in the outbox from which on new Jobs are shed.
  int64_t max_waiting_events = 100'000;
};

struct EngineDeps {
  Strand* strand = nullptr;
  // Calls back on `strand`.
  store::Store* store = nullptr;
  DataSource* data = nullptr;
  // An Outbox::Sink. May be null: then events stay in the outbox until it is full, and new Jobs are
  // shed.
  std::function<void(const std::vector<store::OutboxRecord>&, store::DoneCallback)> ship;
  // Told when this process begins and stops to take calls as the leader; may be null.
  std::function<void(bool leading)> on_leading = nullptr;
  // Puts ended Jobs into the archive; answers on `strand` once it has all of them on disk, or with
  // an error. May be null: then ended Jobs stay.
  std::function<void(const std::vector<capstan::scheduler::v1::Job>&,
                     absl::AnyInvocable<void(absl::Status)>)>
      archive;
  const log::Logger* logger = nullptr;
  metrics::Registry* metrics = nullptr;
  // May be null.
  trace::Sink* spans = nullptr;
  // Of the same store, on the strand: what a term begins with. Outlives the engine.
  CommittedView* view = nullptr;
  // Of what the core takes and decides; may be null.
  FlightRecorder* recorder = nullptr;
  // Told of each round once it is stored; may be null.
  std::function<void(const RoundTimes&)> on_round = nullptr;
};

// The scheduler's strand: leads when it can, owns the core while it leads, persists what it decides
// and only then acts and answers. On its strand only, construction and destruction included.
//
// While it does not lead, and after a failed commit until the state is loaded again, calls get
// UNAVAILABLE with reason NOT_LEADER and sessions are ended with UNAVAILABLE. A call in hand when
// leadership is lost gets UNAVAILABLE: whether it took effect is open, and its request id finds
// out.
class Engine {
 public:
  template <typename T>
  using Answer = absl::AnyInvocable<void(absl::StatusOr<T>)>;

  // Where what is meant for an executor goes.
  class SessionSink {
   public:
    virtual ~SessionSink() = default;
    // An error means that the message was not taken; the engine then ends the session.
    virtual absl::Status Send(const capstan::type::v1::SessionDown& message) = 0;
    virtual void Finish(const absl::Status& status) = 0;
  };

  Engine(EngineConfig config, EngineDeps deps);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Stands for leadership once the view has read what is stored: whoever leads is to answer soon,
  // and to keep its lease meanwhile.
  void Start();
  // Stops answering, ends the sessions and gives leadership up for good.
  void Resign(absl::AnyInvocable<void(absl::Status)> done);

  // Calls; the `call` of the event is set here.
  void Call(CreateJob event, Answer<capstan::scheduler::v1::Job> answer);
  void Call(UpdateJob event, Answer<capstan::scheduler::v1::Job> answer);
  void Call(CancelJob event, Answer<capstan::scheduler::v1::Job> answer);
  void Call(CreateQueue event, Answer<capstan::scheduler::v1::Queue> answer);
  void Call(UpdateQueue event, Answer<capstan::scheduler::v1::Queue> answer);
  void Call(CordonNode event, Answer<capstan::scheduler::v1::Node> answer);
  void Call(UncordonNode event, Answer<capstan::scheduler::v1::Node> answer);
  void Call(CreateCapacityOrder event, Answer<capstan::scheduler::v1::CapacityOrder> answer);
  void Call(DeleteCapacityOrder event, absl::AnyInvocable<void(absl::Status)> answer);
  void Call(CreateMaintenanceWindow event,
            Answer<capstan::scheduler::v1::MaintenanceWindow> answer);
  void Call(DeleteMaintenanceWindow event, absl::AnyInvocable<void(absl::Status)> answer);
  void Call(ConfirmSilence event, absl::AnyInvocable<void(absl::Status)> answer);

  // Sessions. `cluster` is what the certificate says; a Hello that says otherwise ends the session.
  // The sink is dropped once the session has ended, from either side. 0 if it was refused at once.
  SessionId OpenSession(std::string cluster, std::unique_ptr<SessionSink> sink);
  void SessionMessage(SessionId session, capstan::type::v1::SessionUp message);
  void SessionGone(SessionId session);

  bool leading() const { return core_ != nullptr; }
  // Leads, or knows who does.
  bool knows_leader() const {
    return leading() || (leadership_.holder().has_value() && !leadership_.Valid());
  }
  // Revision of the newest commit that was answered: a reader who waits for it sees every answer.
  int64_t committed_revision() const { return committed_revision_; }
  const CoreConfig& core_config() const { return config_.core; }
  // Whether the flight recorder is being given what the term began with.
  bool recording_state() const { return recorded_ != nullptr && deps_.recorder->takes(); }
  // Null while not leading.
  const SchedulerCore* core() const { return core_.get(); }

 private:
  struct Session {
    std::string cluster;
    std::unique_ptr<SessionSink> sink;
    bool greeted = false;
  };
  struct Metrics {
    explicit Metrics(metrics::Registry* registry);
    metrics::Gauge leader;
    metrics::Gauge waiting_jobs;
    metrics::Gauge sessions;
    metrics::Gauge observer_suspected;
    metrics::Gauge outbox_records;
    metrics::Counter steps;
    metrics::Counter terms;
    metrics::Counter commit_failures;
    metrics::Counter renewals;
    metrics::Counter archived_jobs;
    metrics::Counter archive_failures;
    // By whose claim it was; and those that only gave up Tasks.
    metrics::Counter preempted_by_priority;
    metrics::Counter preempted_by_guarantee;
    metrics::Counter shrinks;
    std::map<absl::string_view, metrics::Counter> lost_work;  // by reason
    metrics::Histogram queue_wait;
    metrics::Histogram commit;
    metrics::Histogram round;
  };

  void Gained();
  void Lost(const absl::Status& why);
  void Loaded(CommittedView::State state);
  // Gives the recorder what the term began with, while it takes that.
  void RecordNextPage();
  void Apply(const Event& event);
  // Has the core take what somebody asks for, whose answer comes once it is stored.
  template <typename T, typename A>
  void Begin(bool new_work, T event, std::map<CallId, A>* calls, A answer);
  // `begun`: when the step was, if a round was part of it.
  void Submit(Step step, absl::optional<BootTime> begun);
  void RoundStored(BootTime begun, BootTime decided);
  void Count(const StepTally& tally);
  void CarryOut(std::vector<Effect>& effects, int64_t revision);
  void Do(SendDown& effect, int64_t revision);
  void Do(const CloseSession& effect);
  void Do(const EnsureData& effect);
  void Do(const ReleasePins& effect);
  void Do(const ArchiveJobs& effect);
  void EndSession(SessionId id, const absl::Status& status);
  void ArmTimer();
  // OK if calls may be taken; new work also needs room in queue and outbox.
  absl::Status Ready(bool new_work) const;
  void Gauges();

  // A callback that does nothing once this term is over.
  template <typename F>
  auto InTerm(F f);

  const EngineConfig config_;
  const EngineDeps deps_;
  Metrics metrics_;
  store::Leadership leadership_;
  // Until it resigns.
  std::shared_ptr<char> stands_ = std::make_shared<char>();
  // Of one term, in the order of making.
  std::shared_ptr<char> term_;
  std::unique_ptr<SchedulerCore> core_;
  // Of the records that it was made from, as long as the recorder wants more of them.
  std::unique_ptr<RecordReader> recorded_;
  std::unique_ptr<store::CommitQueue> queue_;
  std::unique_ptr<store::Outbox> outbox_;
  absl::optional<BootTime> armed_for_;
  Strand::TimerId timer_ = 0;

  int64_t committed_revision_ = 0;
  uint64_t last_id_ = 0;
  std::map<SessionId, Session> sessions_;
  std::map<CallId, Answer<capstan::scheduler::v1::Job>> job_calls_;
  std::map<CallId, Answer<capstan::scheduler::v1::Queue>> queue_calls_;
  std::map<CallId, Answer<capstan::scheduler::v1::Node>> node_calls_;
  std::map<CallId, Answer<capstan::scheduler::v1::CapacityOrder>> order_calls_;
  std::map<CallId, Answer<capstan::scheduler::v1::MaintenanceWindow>> window_calls_;
  std::map<CallId, absl::AnyInvocable<void(absl::Status)>> empty_calls_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_ENGINE_H_
