#ifndef CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_HARNESS_H_
#define CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_HARNESS_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/time/clock.h"
#include "libs/trace/span.h"
#include "services/scheduler/core/queue_checks.h"
#include "services/scheduler/core/room_checks.h"
#include "services/scheduler/core/scheduler_core.h"

namespace capstan::scheduler {

class FakeExecutor;

// For tests: a core, a store that is a map, and a clock that is a number. After every step it
// checks what must always hold: the core's durable state is exactly what the store holds, a core
// rebuilt from the store has the same state, no Node is given more than it has, also between two of
// the step's writes, and no GPU instances that cannot stand together, what must be in one domain is, nobody is placed where labels, taints or a maintenance window do not let it be, or is
// disrupted for another more often than its Queue says, and nobody has begun whom its Queues do not
// let (QueueChecks), or who is held.
class CoreHarness {
 public:
  // Told of each step, before anything comes of it, and with a null step that a core was loaded
  // from the records and is about to take the event.
  using Observer =
      std::function<void(const SchedulerCore& core, const Event& event, Now now, const Step* step,
                         const std::map<std::string, std::string>& records)>;

  // `beside_anew`: a second core, of which no round takes up anything from the one before, goes
  // through the same and has to do the same in each step.
  explicit CoreHarness(const CoreConfig& config, Observer observer = nullptr,
                       bool beside_anew = true);

  // Applies, commits, checks; returns the effects and appends the events to `events`.
  std::vector<Effect> Apply(const Event& event);
  // As Apply, but the process dies after committing the first `writes` of the step's writes: the
  // effects are lost, and a new leader takes over. Returns what it does first.
  std::vector<Effect> CrashIn(const Event& event, size_t writes);
  // A new leader takes over; sessions are gone.
  std::vector<Effect> NewLeader();
  // Advances time in steps that stop at every deadline of the core and tick it; returns all
  // effects.
  std::vector<Effect> Advance(absl::Duration d);

  // Time passes and nobody leads.
  void Sleep(absl::Duration d) {
    now_.wall += d;
    now_.boot = now_.boot + d;
  }
  // Somebody sets the wall clock.
  void StepWallClock(absl::Duration d) { now_.wall += d; }

  // A Job of `replicas` Tasks of `cpu_millis` each and 64 MiB, without retries' waits.
  static capstan::scheduler::v1::JobSpec Spec(int replicas, int64_t cpu_millis);
  // Submits it to project p; uid and id are `id`.
  std::vector<Effect> Submit(const std::string& id, capstan::scheduler::v1::JobSpec spec);
  CreateJob SubmitEvent(const std::string& id, capstan::scheduler::v1::JobSpec spec);
  const JobEntry& job(const std::string& uid) const { return core_->model().jobs.at(uid); }

  const JobTable& jobs() const { return core_->model().jobs; }

  SchedulerCore& core() { return *core_; }
  const std::map<std::string, std::string>& records() const { return records_; }
  const std::vector<capstan::event::v1::JobEvent>& events() const { return events_; }
  // Told so far.
  const std::vector<trace::Span>& spans() const { return spans_; }
  // Of the calls that submit from now on.
  void set_traceparent(std::string traceparent) { traceparent_ = std::move(traceparent); }
  Now now() const { return now_; }
  const CoreConfig& config() const { return config_; }
  CallId next_call() { return ++last_call_; }
  const QueueChecks& queue_checks() const { return queue_checks_; }

  // For worlds whose point is what many steps come to: from now on only after each so many is what
  // the core has compared with what the store holds.
  void set_compare_every(int steps) { compare_every_ = steps; }
  // Executors that are there: what a step led to by one's word may concern another.
  std::vector<FakeExecutor*>& executors() { return executors_; }
  void Deliver(const std::vector<Effect>& effects);

 private:
  // Has the core take it, and the observer see it.
  Step Take(const Event& event);
  void Commit(const Write& write);
  // `rebuild`: something was stored, so loading it must give the same state.
  void Check(bool rebuild);
  void CompareWithStore(bool rebuild) const;
  // Whether arrays have their elements, and no more Jobs have begun than arrays and singletons let.
  void CheckOrder() const;
  // Whether all to whom ordered Nodes are nominated wait for them.
  void CheckNominees() const;
  // Whether its generation has as many Tasks as are recorded, and no fewer or more than it may.
  void CheckSizes(const JobEntry& job) const;
  // Whether every live Task that asks for a MIG instance has one of what it asks for on a GPU of its
  // Node, nobody else has any, and each GPU's instances can stand together.
  void CheckMig() const;
  // Whether the Job's Tasks stand to each other as its topology and those of its groups want it.
  void CheckTopology(const JobEntry& job) const;
  // Whether a generation that was placed in this step (`is_new`) is over before any window of its
  // Nodes begins, by what was declared, and whether what is to be stopped for one is.
  void CheckWindows(const JobEntry& job, bool is_new) const;
  // Whether a generation that was placed in this step is where labels and taints let it be.
  void CheckAdmission(const JobEntry& job) const;
  // Whether the Job was disrupted for another one in this step though its budget was used up.
  void CheckDisruptions(const JobEntry& job);
  std::unique_ptr<SchedulerCore> Rebuild() const { return Rebuild(config_); }
  std::unique_ptr<SchedulerCore> Rebuild(const CoreConfig& config) const;

  const CoreConfig config_;
  const Observer observer_;
  Now now_;
  int64_t epoch_ = 0;
  CallId last_call_ = 0;
  std::map<std::string, std::string> records_;
  std::vector<capstan::event::v1::JobEvent> events_;
  std::vector<trace::Span> spans_;
  std::string traceparent_;
  const bool beside_anew_;
  std::unique_ptr<SchedulerCore> core_;
  std::unique_ptr<SchedulerCore> anew_;  // if beside_anew_
  std::vector<FakeExecutor*> executors_;
  QueueChecks queue_checks_;
  RoomChecks room_checks_;
  int compare_every_ = 1;
  int64_t steps_ = 0;
  std::map<std::string, int64_t> placed_;   // generations seen, by uid
  std::map<std::string, int> disruptions_;  // seen, by uid
  std::deque<std::vector<Effect>> inbox_;
};

// The effects of one kind, in order.
template <typename T>
std::vector<T> Of(const std::vector<Effect>& effects) {
  std::vector<T> found;
  for (const Effect& effect : effects) {
    if (const T* one = std::get_if<T>(&effect)) found.push_back(*one);
  }
  return found;
}

// An executor with its Nodes and Tasks, as far as a core can tell. Observations are made when the
// test says so; what could not be sent is in the next full report.
class FakeExecutor {
 public:
  ~FakeExecutor();
  FakeExecutor(const FakeExecutor&) = delete;
  FakeExecutor& operator=(const FakeExecutor&) = delete;
  struct Task {
    capstan::type::v1::DesiredTask desired;
    capstan::type::v1::TaskObservation observed;
    // When the Node's agent last knew the scheduler to be alive.
    BootTime confirmed_at;
    bool running() const {
      return observed.state() == capstan::type::v1::TaskObservation::STATE_RUNNING;
    }
    // Running, and not past the time at which it ends itself.
    bool alive(BootTime now) const;
  };
  // By `<uid>/<generation>/<group>-<index>`.
  using Tasks = std::map<std::string, Task>;

  FakeExecutor(std::string cluster, int nodes, int64_t cpu_millis, CoreHarness* harness);

  // From the next report of the Node on.
  void set_labels(int index, std::map<std::string, std::string> labels) {
    labels_[NodeName(index)] = std::move(labels);
  }
  // Likewise, its GPUs in MIG mode: models by number.
  void set_mig_gpus(int index, std::vector<std::string> models) {
    mig_gpus_[NodeName(index)] = std::move(models);
  }
  // Likewise: values by key.
  void set_taints(int index, std::map<std::string, std::string> taints) {
    taints_[NodeName(index)] = std::move(taints);
  }
  // From now on what is told to stop does not end before the test ends it.
  void set_slow_to_stop() { slow_to_stop_ = true; }
  // Hello and full report.
  void Connect();
  void Disconnect();
  bool connected() const { return session_ != 0; }
  SessionId session() const { return session_; }
  void Renew();
  // Takes what concerns this executor from a step's effects.
  void Take(const std::vector<Effect>& effects);
  // Prepares, or starts, everything it is asked to, and reports.
  void PrepareAll();
  void RunAll();
  // Reports the Task as it is now.
  void Report(const std::string& key);
  // `code`: the exit code, or the signal.
  void End(const std::string& key, capstan::type::v1::TaskEnd::Cause cause, int code = 0);
  // Reports whether it hears the Node.
  void ReportNode(int index, bool silent);
  // What the Tasks' deadlines do by themselves: those unconfirmed for fence_after end.
  void Fence();

  std::string NodeName(int index) const;
  // The executor hears the Node.
  bool hears(const std::string& node) const { return silent_.count(node) == 0; }
  Tasks& tasks() { return tasks_; }
  std::vector<std::string> Keys() const;

 private:
  void Observe(const std::vector<std::string>& keys, bool nodes, bool sync_complete);
  capstan::type::v1::NodeObservation NodeReport(int index) const;

  const std::string cluster_;
  const int nodes_;
  const int64_t cpu_millis_;
  CoreHarness* const harness_;
  SessionId session_ = 0;
  int64_t sequence_ = 0;
  int64_t renewals_ = 0;
  std::map<int64_t, BootTime> renewals_sent_;
  std::map<std::string, bool> silent_;  // withheld until acknowledged: false once heard again
  std::map<std::string, std::map<std::string, std::string>> labels_;  // by Node
  std::map<std::string, std::map<std::string, std::string>> taints_;  // by Node
  std::map<std::string, std::vector<std::string>> mig_gpus_;          // by Node
  Tasks tasks_;
  bool slow_to_stop_ = false;
  static SessionId next_session_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_CORE_CORE_HARNESS_H_
