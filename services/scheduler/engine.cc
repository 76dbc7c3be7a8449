#include "services/scheduler/engine.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/event_shipper/event_record.h"
#include "libs/status/error.h"
#include "libs/trace/tracer.h"
#include "services/scheduler/core/job_spans.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/lost_work.h"

namespace capstan::scheduler {

using capstan::type::v1::SessionUp;

namespace {

constexpr absl::Duration kRetryCallsAfter = absl::Milliseconds(500);
constexpr absl::Duration kRetryShedAfter = absl::Seconds(5);

// From a second to a week.
std::vector<double> WaitBuckets() {
  return {1, 3, 10, 30, 60, 180, 600, 1800, 3600, 10'800, 43'200, 86'400, 259'200, 604'800};
}

store::Leadership::Options LeadershipOptions(const EngineConfig& config) {
  store::Leadership::Options options;
  options.key = absl::StrCat(kKeyPrefix, "leader");
  options.value = config.address;
  options.ttl = config.leadership_ttl;
  options.margin = config.leadership_margin;
  options.sole_owner = config.sole_owner;
  return options;
}

absl::Status NotLeader(absl::string_view why) {
  return status::WithRetryDelay(
      status::Error(absl::StatusCode::kUnavailable, store::kReasonNotLeader, why),
      kRetryCallsAfter);
}

// Answers and removes a pending call; one that a former term left is not there any more.
template <typename Calls, typename Result>
void AnswerCall(Calls* calls, CallId call, Result result) {
  auto it = calls->find(call);
  if (it == calls->end()) return;
  auto answer = std::move(it->second);
  calls->erase(it);
  answer(std::move(result));
}

template <typename Calls>
void RefuseAll(Calls* calls, const absl::Status& status) {
  Calls pending = std::exchange(*calls, Calls());
  for (auto& [call, answer] : pending) answer(status);
}

}  // namespace

Engine::Metrics::Metrics(metrics::Registry* registry)
    : leader(registry->AddGauge("leader", "1 while this process leads.")),
      waiting_jobs(registry->AddGauge("waiting_jobs", "Jobs that wait for room.")),
      sessions(registry->AddGauge("executor_sessions", "Executors connected.")),
      observer_suspected(registry->AddGauge(
          "observer_suspected", "1 while re-placement by time-out is frozen: page someone.")),
      outbox_records(registry->AddGauge("outbox_records", "Events not yet taken by telemetry.")),
      steps(registry->AddCounter("steps_total", "Events that the core has decided on.")),
      terms(registry->AddCounter("leadership_terms_total", "Times leadership was gained.")),
      commit_failures(registry->AddCounter("commit_failures_total",
                                           "Commits that failed and made the state be reloaded.")),
      renewals(registry->AddCounter("renewals_answered_total", "Renewals answered.")),
      archived_jobs(
          registry->AddCounter("archived_jobs_total", "Ended Jobs that left for the archive.")),
      archive_failures(registry->AddCounter("archive_failures_total",
                                            "Times the archive did not take ended Jobs.")),
      preempted_by_priority(registry->AddCounter(
          "preemptions_total", "Gangs that were ended for another.", {{"reason", "PRIORITY"}})),
      preempted_by_guarantee(registry->AddCounter(
          "preemptions_total", "Gangs that were ended for another.", {{"reason", "GUARANTEE"}})),
      shrinks(registry->AddCounter("shrinks_total", "Gangs that gave up Tasks for another.")),
      queue_wait(registry->AddHistogram(
          "queue_wait_seconds", "Of each Job that is placed: since when it stood in its Queue.",
          WaitBuckets())),
      commit(registry->AddHistogram("commit_duration_seconds",
                                    "From a decision to its being durable.")),
      round(registry->AddHistogram(
          "round_duration_seconds",
          "From the beginning of a round of placement to its last record being durable.")) {
  for (const absl::string_view reason : LostWorkReasons()) {
    lost_work.emplace(
        reason, registry->AddCounter("lost_accelerator_seconds_total",
                                     "Work lost since the last checkpoint there can have been.",
                                     {{"reason", std::string(reason)}}));
  }
}

Engine::Engine(EngineConfig config, EngineDeps deps)
    : config_(std::move(config)),
      deps_(std::move(deps)),
      metrics_(deps_.metrics),
      leadership_(deps_.store, deps_.strand, LeadershipOptions(config_)) {}

Engine::~Engine() {
  if (timer_ != 0) deps_.strand->Cancel(timer_);
}

template <typename F>
auto Engine::InTerm(F f) {
  return [term = std::weak_ptr<char>(term_), f = std::move(f)](auto&&... args) mutable {
    if (!term.expired()) f(std::forward<decltype(args)>(args)...);
  };
}

void Engine::Start() {
  deps_.view->WhenAtLeast(0, [this, alive = std::weak_ptr<char>(stands_)] {
    if (alive.expired()) return;
    leadership_.Start(
        {.on_gained = [this] { Gained(); }, .on_lost = [this](absl::Status why) { Lost(why); }});
  });
}

void Engine::Resign(absl::AnyInvocable<void(absl::Status)> done) {
  stands_.reset();
  leadership_.Resign(std::move(done));
}

void Engine::Gained() {
  term_ = std::make_shared<char>();
  metrics_.terms.Increment();
  deps_.logger->Info("leadership gained", {{"epoch", leadership_.epoch()}});
  // Nobody else has written, nor will, since the key was made.
  deps_.view->Copy(
      leadership_.epoch(), InTerm([this](absl::StatusOr<CommittedView::State> state) {
        if (!state.ok()) {
          deps_.logger->Error("the stored state cannot be loaded", {{"error", state.status()}});
          return leadership_.StepDown(state.status());
        }
        // Another task, so that the lease of many Jobs' leader is renewed in between.
        deps_.strand->Post(
            InTerm([this, state = *std::move(state)]() mutable { Loaded(std::move(state)); }));
      }));
}

void Engine::Loaded(CommittedView::State state) {
  const size_t jobs = state.model.jobs.size();
  core_ = SchedulerCore::Of(config_.core, std::move(state.model), std::move(state.stale));
  if (deps_.recorder != nullptr) {
    deps_.recorder->Begin(config_.core,
                          {.leader_epoch = leadership_.token().leader_epoch,
                           .store_incarnation = leadership_.token().store_incarnation,
                           .revision = state.revision},
                          deps_.strand->clock().Read());
    recorded_ = std::make_unique<RecordReader>(deps_.store, state.revision);
    RecordNextPage();
  }
  committed_revision_ = state.revision;
  queue_ = std::make_unique<store::CommitQueue>(deps_.store, deps_.strand, leadership_.Guard());
  store::Outbox::Options outbox;
  outbox.prefix = absl::StrCat(kKeyPrefix, "outbox/");
  outbox.max_records = config_.max_waiting_events;
  outbox_ = std::make_unique<store::Outbox>(
      deps_.store, deps_.strand, queue_.get(), state.revision, outbox,
      [this](const std::vector<store::OutboxRecord>& batch, store::DoneCallback taken) {
        deps_.ship(batch, std::move(taken));
      });
  if (deps_.ship) outbox_->Start();
  LeadershipGained gained;
  gained.token.set_store_incarnation(leadership_.token().store_incarnation);
  gained.token.set_leader_epoch(leadership_.token().leader_epoch);
  Apply(gained);
  deps_.logger->Info("state loaded", {{"revision", state.revision}, {"jobs", jobs}});
  if (deps_.on_leading) deps_.on_leading(true);
}

void Engine::RecordNextPage() {
  recorded_->Next([this](absl::StatusOr<RecordReader::Page> page) {
    FlightRecorder& recorder = *deps_.recorder;
    if (!page.ok()) return recorder.GiveUp(page.status().ToString());
    if (page->last) {
      recorder.AddRecords(std::move(page->kvs), /*last=*/true, nullptr);
      recorded_.reset();
      return;
    }
    // No faster than they are written, so that few are in memory.
    recorder.AddRecords(std::move(page->kvs), /*last=*/false,
                        [remote = deps_.strand->remote(), next = InTerm([this] {
                                                            if (deps_.recorder->takes())
                                                              RecordNextPage();
                                                          })]() mutable {
                          remote.Post([next = std::move(next)]() mutable { next(); });
                        });
  });
}

void Engine::Lost(const absl::Status& why) {
  deps_.logger->Warning("leadership lost", {{"error", why}});
  if (deps_.on_leading) deps_.on_leading(false);
  term_.reset();
  if (timer_ != 0) deps_.strand->Cancel(std::exchange(timer_, 0));
  armed_for_.reset();
  deps_.data->StopAll();
  outbox_.reset();
  queue_.reset();
  recorded_.reset();
  core_.reset();
  if (deps_.recorder != nullptr) deps_.recorder->End("leadership was lost");
  const absl::Status status = NotLeader("this scheduler has stopped leading");
  std::map<SessionId, Session> sessions = std::exchange(sessions_, {});
  for (auto& [id, session] : sessions) session.sink->Finish(status);
  RefuseAll(&job_calls_, status);
  RefuseAll(&queue_calls_, status);
  RefuseAll(&node_calls_, status);
  RefuseAll(&order_calls_, status);
  RefuseAll(&window_calls_, status);
  RefuseAll(&empty_calls_, status);
  Gauges();
}

void Engine::Apply(const Event& event) {
  const Now now = deps_.strand->clock().Read();
  const int64_t rounds = core_->rounds();
  Step step = core_->Apply(event, now);
  metrics_.steps.Increment();
  const bool round = core_->rounds() > rounds;
  if (deps_.recorder != nullptr) deps_.recorder->Record(event, now, step, round);
  Count(step.tally);
  Submit(std::move(step), round ? absl::make_optional(now.boot) : absl::nullopt);
  ArmTimer();
  Gauges();
}

void Engine::Submit(Step step, absl::optional<BootTime> begun) {
  if (step.persist.empty()) step.persist.emplace_back();
  const BootTime decided = deps_.strand->clock().Read().boot;
  for (size_t i = 0; i < step.persist.size(); ++i) {
    Write& write = step.persist[i];
    for (const auto& event : write.events) {
      write.puts.push_back(outbox_->Add(OutboxPayload(event)));
    }
    const bool last = i + 1 == step.persist.size();
    std::vector<Effect> after;
    if (last) after = std::move(step.after);
    queue_->Submit(std::move(write.puts), std::move(write.deletes),
                   [this, decided, begun = last ? begun : absl::nullopt,
                    after = std::move(after)](absl::StatusOr<int64_t> revision) mutable {
                     if (!revision.ok()) {
                       metrics_.commit_failures.Increment();
                       // Destroys the queue, and with it the callbacks behind this one.
                       return leadership_.StepDown(revision.status());
                     }
                     metrics_.commit.Observe(deps_.strand->clock().Read().boot - decided);
                     committed_revision_ = std::max(committed_revision_, *revision);
                     if (begun.has_value()) RoundStored(*begun, decided);
                     if (after.empty()) return;
                     CrashPoint(crash::kSchedulerBeforeEffects);
                     CarryOut(after, *revision);
                     CrashPoint(crash::kSchedulerAfterEffects);
                   });
  }
}

void Engine::Count(const StepTally& tally) {
  metrics_.preempted_by_priority.Increment(static_cast<double>(tally.preempted_by_priority));
  metrics_.preempted_by_guarantee.Increment(static_cast<double>(tally.preempted_by_guarantee));
  metrics_.shrinks.Increment(static_cast<double>(tally.shrunk));
  for (const absl::Duration wait : tally.waits) metrics_.queue_wait.Observe(wait);
  for (const StepTally::Lost& lost : tally.lost) {
    metrics_.lost_work.at(lost.why).Increment(absl::ToDoubleSeconds(lost.accelerator_time));
  }
}

void Engine::RoundStored(BootTime begun, BootTime decided) {
  const absl::Duration durable = deps_.strand->clock().Read().boot - begun;
  metrics_.round.Observe(durable);
  if (deps_.on_round) deps_.on_round({.decided = decided - begun, .durable = durable});
}

void Engine::CarryOut(std::vector<Effect>& effects, int64_t revision) {
  for (Effect& effect : effects) {
    if (auto* send = std::get_if<SendDown>(&effect)) {
      Do(*send, revision);
    } else if (const auto* close = std::get_if<CloseSession>(&effect)) {
      Do(*close);
    } else if (const auto* job = std::get_if<ReplyJob>(&effect)) {
      CrashPoint(crash::kSchedulerAnswering);
      AnswerCall(&job_calls_, job->call, job->job);
    } else if (const auto* queue = std::get_if<ReplyQueue>(&effect)) {
      AnswerCall(&queue_calls_, queue->call, queue->queue);
    } else if (const auto* node = std::get_if<ReplyNode>(&effect)) {
      AnswerCall(&node_calls_, node->call, node->node);
    } else if (const auto* order = std::get_if<ReplyCapacityOrder>(&effect)) {
      AnswerCall(&order_calls_, order->call, order->order);
    } else if (const auto* window = std::get_if<ReplyMaintenanceWindow>(&effect)) {
      AnswerCall(&window_calls_, window->call, window->window);
    } else if (const auto* empty = std::get_if<ReplyEmpty>(&effect)) {
      AnswerCall(&empty_calls_, empty->call, empty->status);
    } else if (const auto* ensure = std::get_if<EnsureData>(&effect)) {
      Do(*ensure);
    } else if (const auto* stop = std::get_if<StopData>(&effect)) {
      deps_.data->Stop(stop->job_uid);
    } else if (const auto* release = std::get_if<ReleasePins>(&effect)) {
      Do(*release);
    } else if (const auto* archive = std::get_if<ArchiveJobs>(&effect)) {
      Do(*archive);
    } else if (const auto* told = std::get_if<TellSpan>(&effect)) {
      if (deps_.spans == nullptr) continue;
      trace::Span span = told->span;
      if (told->until_stored) span.end = deps_.strand->clock().Read().wall;
      deps_.spans->End(std::move(span));
    } else if (const auto* suspected = std::get_if<ObserverSuspected>(&effect)) {
      metrics_.observer_suspected.Set(suspected->suspected ? 1 : 0);
      if (suspected->suspected) {
        deps_.logger->Error("too many fell silent at once: re-placement by time-out is frozen");
      } else {
        deps_.logger->Info("re-placement by time-out goes on");
      }
    }
  }
}

void Engine::Do(SendDown& effect, int64_t revision) {
  auto it = sessions_.find(effect.session);
  if (it == sessions_.end()) return;
  absl::Status sent;
  if (effect.message.has_renewal_answer()) {
    // It may have waited for a commit: only a leader that still leads confirms anything.
    if (deps_.strand->clock().Read().boot >= effect.send_before || !leadership_.Valid()) return;
    metrics_.renewals.Increment();
    sent = it->second.sink->Send(effect.message);
  } else if (effect.message.has_desired()) {
    effect.message.mutable_desired()->set_revision(revision);
    sent = it->second.sink->Send(effect.message);
  } else {
    sent = it->second.sink->Send(effect.message);
  }
  // A message lost is a session lost: the next one begins with a snapshot.
  if (!sent.ok()) EndSession(effect.session, sent);
}

void Engine::Do(const CloseSession& effect) {
  auto it = sessions_.find(effect.session);
  if (it == sessions_.end()) return;
  deps_.logger->Warning("executor session ended",
                        {{"cluster", it->second.cluster}, {"error", effect.status}});
  Session session = std::move(it->second);
  sessions_.erase(it);
  session.sink->Finish(effect.status);
}

void Engine::Do(const EnsureData& effect) {
  const JobEntry* job = core_->model().FindJob(effect.job_uid);
  const trace::Scope scope(job == nullptr ? absl::nullopt : JobTrace(*job));
  CrashPoint(crash::kSchedulerBeforeEnsureData);
  deps_.data->Ensure(effect, InTerm([this](const Event& event) { Apply(event); }));
}

void Engine::Do(const ReleasePins& effect) {
  CrashPoint(crash::kSchedulerBeforeReleasePins);
  deps_.data->ReleasePins(effect.job_uid, effect.generation, InTerm([this, effect] {
                            CrashPoint(crash::kSchedulerPinsReleased);
                            Apply(PinsReleased{effect.job_uid, effect.generation});
                          }));
}

void Engine::Do(const ArchiveJobs& effect) {
  if (!deps_.archive) return;
  std::vector<std::string> uids;
  for (const capstan::scheduler::v1::Job& job : effect.jobs) uids.push_back(job.uid());
  deps_.archive(effect.jobs, InTerm([this, uids](const absl::Status& archived) {
                  if (archived.ok()) {
                    metrics_.archived_jobs.Increment(static_cast<double>(uids.size()));
                    return Apply(JobsArchived{uids});
                  }
                  metrics_.archive_failures.Increment();
                  deps_.logger->Warning("ended Jobs stay: the archive did not take them",
                                        {{"jobs", uids.size()}, {"error", archived}});
                  Apply(ArchiveFailed{uids});
                }));
}

void Engine::ArmTimer() {
  const absl::optional<BootTime> deadline = core_->NextDeadline();
  if (deadline == armed_for_ && timer_ != 0) return;
  if (timer_ != 0) deps_.strand->Cancel(std::exchange(timer_, 0));
  armed_for_ = deadline;
  if (!deadline) return;
  timer_ = deps_.strand->RunAt(*deadline, InTerm([this] {
    timer_ = 0;
    Apply(Tick{});
  }));
}

absl::Status Engine::Ready(bool new_work) const {
  if (core_ == nullptr) {
    return NotLeader(leadership_.holder() && !leadership_.Valid()
                         ? absl::StrCat("the scheduler at ", *leadership_.holder(), " leads")
                         : "the scheduler is loading its state");
  }
  if (new_work && (queue_->congested() || outbox_->full() || leadership_.RenewalIsLate())) {
    return status::WithRetryDelay(
        status::Error(absl::StatusCode::kResourceExhausted, "OVERLOADED",
                      "too much is waiting to be decided, stored or shipped; try again later"),
        kRetryShedAfter);
  }
  return absl::OkStatus();
}

void Engine::Gauges() {
  metrics_.leader.Set(core_ != nullptr ? 1 : 0);
  metrics_.sessions.Set(static_cast<double>(sessions_.size()));
  metrics_.waiting_jobs.Set(core_ == nullptr ? 0 : static_cast<double>(core_->waiting_jobs()));
  metrics_.outbox_records.Set(outbox_ == nullptr ? 0 : static_cast<double>(outbox_->records()));
}

template <typename T, typename A>
void Engine::Begin(bool new_work, T event, std::map<CallId, A>* calls, A answer) {
  const absl::Status ready = Ready(new_work);
  if (!ready.ok()) return answer(ready);
  event.call = ++last_id_;
  calls->emplace(event.call, std::move(answer));
  Apply(event);
}

void Engine::Call(CreateJob event, Answer<capstan::scheduler::v1::Job> answer) {
  const bool new_work = !event.validate_only;
  Begin(new_work, std::move(event), &job_calls_, std::move(answer));
}

void Engine::Call(UpdateJob event, Answer<capstan::scheduler::v1::Job> answer) {
  Begin(/*new_work=*/false, std::move(event), &job_calls_, std::move(answer));
}

void Engine::Call(CancelJob event, Answer<capstan::scheduler::v1::Job> answer) {
  Begin(/*new_work=*/false, std::move(event), &job_calls_, std::move(answer));
}

void Engine::Call(CreateQueue event, Answer<capstan::scheduler::v1::Queue> answer) {
  Begin(/*new_work=*/true, std::move(event), &queue_calls_, std::move(answer));
}

void Engine::Call(UpdateQueue event, Answer<capstan::scheduler::v1::Queue> answer) {
  Begin(/*new_work=*/false, std::move(event), &queue_calls_, std::move(answer));
}

void Engine::Call(CordonNode event, Answer<capstan::scheduler::v1::Node> answer) {
  Begin(/*new_work=*/false, std::move(event), &node_calls_, std::move(answer));
}

void Engine::Call(UncordonNode event, Answer<capstan::scheduler::v1::Node> answer) {
  Begin(/*new_work=*/false, std::move(event), &node_calls_, std::move(answer));
}

void Engine::Call(CreateCapacityOrder event, Answer<capstan::scheduler::v1::CapacityOrder> answer) {
  Begin(/*new_work=*/false, std::move(event), &order_calls_, std::move(answer));
}

void Engine::Call(DeleteCapacityOrder event, absl::AnyInvocable<void(absl::Status)> answer) {
  Begin(/*new_work=*/false, std::move(event), &empty_calls_, std::move(answer));
}

void Engine::Call(CreateMaintenanceWindow event,
                  Answer<capstan::scheduler::v1::MaintenanceWindow> answer) {
  Begin(/*new_work=*/false, std::move(event), &window_calls_, std::move(answer));
}

void Engine::Call(DeleteMaintenanceWindow event, absl::AnyInvocable<void(absl::Status)> answer) {
  Begin(/*new_work=*/false, std::move(event), &empty_calls_, std::move(answer));
}

void Engine::Call(ConfirmSilence event, absl::AnyInvocable<void(absl::Status)> answer) {
  Begin(/*new_work=*/false, event, &empty_calls_, std::move(answer));
}

SessionId Engine::OpenSession(std::string cluster, std::unique_ptr<SessionSink> sink) {
  const absl::Status ready = Ready(/*new_work=*/false);
  if (!ready.ok()) {
    sink->Finish(ready);
    return 0;
  }
  const SessionId id = ++last_id_;
  sessions_.emplace(id, Session{std::move(cluster), std::move(sink), false});
  Gauges();
  return id;
}

void Engine::SessionMessage(SessionId id, SessionUp message) {
  auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  Session& session = it->second;
  const bool right = message.has_hello()
                         ? !session.greeted && message.hello().cluster() == session.cluster
                         : session.greeted;
  if (!right) {
    EndSession(id, status::Error(absl::StatusCode::kInvalidArgument, "BAD_HELLO",
                                 absl::StrCat("hello comes first, once, and names the cluster of "
                                              "the certificate, ",
                                              session.cluster)));
    return;
  }
  switch (message.message_case()) {
    case SessionUp::kHello:
      session.greeted = true;
      deps_.logger->Info(
          "executor session begun",
          {{"cluster", session.cluster}, {"incarnation", message.hello().incarnation()}});
      Apply(HelloReceived{id, std::move(*message.mutable_hello())});
      break;
    case SessionUp::kRenewal:
      Apply(RenewalReceived{id, message.renewal().sequence(), leadership_.ValidUntil()});
      break;
    case SessionUp::kObservations:
      Apply(ObservationsReceived{id, std::move(*message.mutable_observations())});
      break;
    case SessionUp::MESSAGE_NOT_SET:
      break;
  }
}

void Engine::EndSession(SessionId id, const absl::Status& status) {
  auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  Session session = std::move(it->second);
  sessions_.erase(it);
  session.sink->Finish(status);
  deps_.logger->Info("executor session ended", {{"cluster", session.cluster}, {"error", status}});
  if (core_ != nullptr) Apply(SessionClosed{id});
}

void Engine::SessionGone(SessionId id) { EndSession(id, absl::OkStatus()); }

}  // namespace capstan::scheduler
