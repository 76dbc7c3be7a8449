#include "integration/simulation/scheduler_actor.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/scheduler/core/arrays.h"
#include "services/scheduler/core/demand_class.h"
#include "services/scheduler/core/keys.h"
#include "services/scheduler/core/model.h"
#include "services/scheduler/core/records.pb.h"
#include "services/scheduler/core/render.h"
#include "services/scheduler/core/simulated_state.h"
#include "services/scheduler/core/what_if.h"

namespace capstan::simulation {

using capstan::scheduler::v1::CapacityOrder;
using capstan::scheduler::v1::Job;
using capstan::scheduler::v1::MaintenanceWindow;
using capstan::scheduler::v1::Node;
using capstan::scheduler::v1::Queue;
using capstan::scheduler::v1::SimulatePlacementRequest;
using capstan::scheduler::v1::SimulatePlacementResponse;
using scheduler::rec::JobStateRecord;
using scheduler::rec::QueueRecord;

namespace {

constexpr absl::Duration kTtl = absl::Seconds(8);
constexpr absl::Duration kMargin = absl::Seconds(1);
constexpr absl::Duration kKeepAlive = absl::Seconds(2);

// Removes the stops of failed PREPAREs, for the mutant that forgets to undo them.
void DropUndo(capstan::type::v1::SessionDown* message) {
  if (!message->has_desired()) return;
  auto& tasks = *message->mutable_desired()->mutable_tasks();
  for (int i = tasks.size() - 1; i >= 0; --i) {
    if (tasks[i].stop().reason() == capstan::type::v1::Stop::REASON_PREPARE_FAILED) {
      tasks.DeleteSubrange(i, 1);
    }
  }
}

// For the mutants that read something else than what is stored.
template <typename Record>
void Rewrite(store::KeyValue* kv, const std::function<void(Record*)>& change) {
  Record record;
  if (!record.ParseFromString(kv->value)) return;
  change(&record);
  kv->value = record.SerializeAsString();
}

}  // namespace

std::vector<store::KeyValue> SharedStore::CoreRecords() const {
  std::vector<store::KeyValue> records = disk.Read();
  records.erase(std::remove_if(records.begin(), records.end(),
                               [](const store::KeyValue& kv) {
                                 return absl::StartsWith(kv.key, kOutboxPrefix);
                               }),
                records.end());
  return records;
}

SchedulerActor::SchedulerActor(Network* network, const MachineClock* clock, std::string name,
                               SharedStore* store, LoaderActor* loader, TelemetryActor* telemetry,
                               const Mutants* mutants)
    : Process(&network->world(), std::move(name), clock),
      network_(network),
      store_(store),
      loader_(loader),
      telemetry_(telemetry),
      mutants_(mutants) {
  // So that there is somebody to end for a Job of higher priority within a scenario.
  config_.min_runtime = kMinRuntime;
  if (mutants->replaces_early) config_.replace_margin = -absl::Seconds(30);
}

bool SchedulerActor::StoreReached() const {
  return network_->Passes(name(), SharedStore::kName) &&
         network_->Passes(SharedStore::kName, name());
}

std::string SchedulerActor::Claim() const { return absl::StrCat(name(), "/", life()); }

void SchedulerActor::OnStart() { KeepAlive(); }

void SchedulerActor::OnCrash() {
  if (pipe_ != nullptr) pipe_->Crash();
  pipe_.reset();
  core_.reset();
  loads_.reset();
  sessions_.clear();
  calls_ = {};
  old_pipe_.reset();
  epoch_ = 0;
  ended_epoch_ = 0;
}

void SchedulerActor::OnAlarm() {
  if (core_ != nullptr) Apply(scheduler::Tick{});
}

// One round trip to the store: keeps the leadership, or takes it when no one has it.
void SchedulerActor::KeepAlive() {
  const BootTime sent = Read().boot;
  const int64_t my_life = life();
  const absl::Duration there = network_->Delay(name(), SharedStore::kName);
  const absl::Duration back = network_->Delay(SharedStore::kName, name());
  world().After(there, [this, sent, my_life, back] {
    if (!StoreReached() || life() != my_life || !up()) return;
    if (store_->leader == Claim() && epoch_ == store_->epoch &&
        world().now() < store_->lease_ends) {
      store_->lease_ends = world().now() + kTtl;
    } else if (world().now() >= store_->lease_ends) {
      store_->leader = Claim();
      store_->epoch = ++store_->disk.revision;
      store_->lease_ends = world().now() + kTtl;
      world().Log(name(), absl::StrCat("leads, epoch ", store_->epoch));
    } else if (store_->leader != Claim()) {
      return;
    }
    const int64_t epoch = store_->epoch;
    world().After(back, [this, sent, my_life, epoch] {
      Run(my_life, [this, sent, epoch] {
        // A term that was given up is never taken up again.
        if (epoch < epoch_ || epoch <= ended_epoch_) return;
        if (sent + (kTtl - kMargin) <= Read().boot) return;
        const bool new_term = epoch != epoch_;
        if (new_term) StepDown("a new term");
        leader_until_ = sent + (kTtl - kMargin);
        if (new_term) Lead(epoch);
      });
    });
  });
  Later(kKeepAlive, [this] {
    if (epoch_ != 0 && Read().boot >= leader_until_ && !mutants_->deposed_leader_answers) {
      StepDown("its lease has run out");
    }
    KeepAlive();
  });
}

std::vector<store::KeyValue> SchedulerActor::RecordsToLoad() const {
  std::vector<store::KeyValue> records = store_->CoreRecords();
  std::erase_if(records, [this](const store::KeyValue& kv) {
    return (mutants_->leader_forgets_orders &&
            absl::StartsWith(kv.key, scheduler::CapacityOrderKey(""))) ||
           (mutants_->leader_forgets_requests &&
            absl::StartsWith(kv.key, scheduler::RequestKey("jobs", "p", "")));
  });
  for (store::KeyValue& kv : records) {
    if (mutants_->leader_forgets_limits && absl::StartsWith(kv.key, scheduler::QueueKey(""))) {
      Rewrite<QueueRecord>(&kv,
                           [](QueueRecord* record) { record->mutable_queue()->clear_quotas(); });
    }
    if (mutants_->leader_waits_for_nobody && absl::StartsWith(kv.key, scheduler::JobStateKey(""))) {
      Rewrite<JobStateRecord>(&kv, [](JobStateRecord* record) {
        if (record->dependencies().empty() || record->state() != Job::STATE_QUEUED) return;
        for (auto& dependency : *record->mutable_dependencies()) dependency.set_met(true);
        // As one that waits for room.
        record->set_reason("INSUFFICIENT_RESOURCES");
      });
    }
  }
  return records;
}

void SchedulerActor::Lead(int64_t epoch) {
  auto core = scheduler::SchedulerCore::Load(config_, RecordsToLoad());
  if (!core.ok()) return world().Violate(absl::StrCat(name(), ": ", core.status().ToString()));
  epoch_ = epoch;
  // As store::Outbox: above all that an earlier term has given.
  next_sequence_ = (store_->disk.revision << 20) + 1;
  core_ = *std::move(core);
  loads_ = std::make_unique<LoadFollower>(network_, this, loader_, mutants_,
                                          [this](const scheduler::Event& event) { Apply(event); });
  CommitPipe::Options options;
  // Of the life that submits it: what it leaves behind may arrive in a later one.
  options.compare = [this, epoch, claim = Claim()] {
    if (store_->leader == claim && store_->epoch == epoch) return true;
    if (mutants_->no_leadership_compare) world().Violate("a deposed leader's commit took effect");
    return mutants_->no_leadership_compare;
  };
  options.latest = absl::Seconds(20);
  options.reachable = [this] { return StoreReached(); };
  options.on_dead = [this] {
    if (!mutants_->deposed_leader_answers) StepDown("a commit was refused");
  };
  options.on_failed = [this] { StepDown("a commit failed"); };
  options.act_first = mutants_->start_before_persist;
  options.slowest = absl::Milliseconds(60);
  pipe_ = std::make_unique<CommitPipe>(this, &store_->disk, options);
  scheduler::LeadershipGained gained;
  gained.token.set_store_incarnation(1);
  gained.token.set_leader_epoch(epoch);
  Apply(gained);
  if (epoch_ == epoch) Ship(epoch);
}

void SchedulerActor::StepDown(const std::string& why) {
  if (epoch_ == 0) return;
  world().Log(name(), absl::StrCat("steps down: ", why));
  ended_epoch_ = std::exchange(epoch_, 0);
  core_.reset();
  loads_.reset();
  // Its commit may be what called us; what it still holds is never carried out.
  pipe_->Crash();
  old_pipe_ = std::move(pipe_);
  calls_ = {};
  SetAlarm(absl::nullopt);
  for (auto& [id, pipe] : std::exchange(sessions_, {})) pipe->CloseUpper();
}

void SchedulerActor::Apply(const scheduler::Event& event) {
  const Now now = Read();
  Now told = now;
  if (mutants_->scheduler_reads_late) told.wall -= absl::Minutes(3);
  scheduler::Step step = core_->Apply(event, told);
  if (observer_ != nullptr) observer_(*this, event, now, step);
  for (scheduler::Write& write : step.persist) {
    std::vector<TelemetryActor::Record> records;
    for (const capstan::event::v1::JobEvent& event : write.events) {
      records.push_back({event.job_uid(), next_sequence_++});
      write.puts.push_back(
          {.key = absl::StrFormat("%s%020d", SharedStore::kOutboxPrefix, records.back().sequence),
           .value = event.job_uid()});
    }
    pipe_->Submit(std::move(write.puts), std::move(write.deletes),
                  [this, records = std::move(records)](int64_t) {
                    for (const auto& record : records) {
                      telemetry_->witness().Committed(record.key, record.sequence);
                    }
                  });
  }
  for (const scheduler::Effect& effect : step.after) {
    if (AnswersFirst(effect)) CarryOut(effect, 0);
  }
  pipe_->Submit({}, {}, [this, epoch = epoch_, after = std::move(step.after)](int64_t revision) {
    for (const scheduler::Effect& effect : after) {
      if (epoch_ == epoch) CarryOut(effect, revision);
    }
  });
  if (core_ != nullptr) {
    absl::optional<BootTime> next = core_->NextDeadline();
    if (next.has_value() && *next < Read().boot) next = Read().boot;
    SetAlarm(next);
  }
}

bool SchedulerActor::AnswersFirst(const scheduler::Effect& effect) const {
  return (mutants_->reply_before_persist && std::holds_alternative<scheduler::ReplyJob>(effect)) ||
         (mutants_->window_acts_first &&
          std::holds_alternative<scheduler::ReplyMaintenanceWindow>(effect));
}

template <typename T>
void SchedulerActor::Answer(scheduler::CallId id, const absl::StatusOr<T>& answer) {
  auto& calls = std::get<Calls<T>>(calls_);
  const auto call = calls.find(id);
  if (call == calls.end()) return;
  call->second(answer);
  calls.erase(call);
}

void SchedulerActor::CarryOut(const scheduler::Effect& effect, int64_t revision) {
  if (const auto* send = std::get_if<scheduler::SendDown>(&effect)) {
    const auto session = sessions_.find(send->session);
    if (session == sessions_.end()) return;
    if (Read().boot >= send->send_before) return;
    capstan::type::v1::SessionDown message = send->message;
    if (message.has_desired()) message.mutable_desired()->set_revision(revision);
    if (mutants_->prepare_not_undone) DropUndo(&message);
    session->second->SendDown(std::move(message));
  } else if (const auto* close = std::get_if<scheduler::CloseSession>(&effect)) {
    const auto session = sessions_.find(close->session);
    if (session == sessions_.end()) return;
    session->second->CloseUpper();
    sessions_.erase(session);
    Later(absl::ZeroDuration(), [this, id = close->session] {
      if (core_ != nullptr) Apply(scheduler::SessionClosed{id});
    });
  } else if (const auto* job = std::get_if<scheduler::ReplyJob>(&effect)) {
    Answer(job->call, job->job);
  } else if (const auto* queue = std::get_if<scheduler::ReplyQueue>(&effect)) {
    Answer(queue->call, queue->queue);
  } else if (const auto* node = std::get_if<scheduler::ReplyNode>(&effect)) {
    Answer(node->call, node->node);
  } else if (const auto* window = std::get_if<scheduler::ReplyMaintenanceWindow>(&effect)) {
    Answer(window->call, window->window);
  } else if (const auto* order = std::get_if<scheduler::ReplyCapacityOrder>(&effect)) {
    Answer(order->call, order->order);
  } else if (const auto* empty = std::get_if<scheduler::ReplyEmpty>(&effect)) {
    Answer(empty->call,
           empty->status.ok() ? absl::StatusOr<bool>(true) : absl::StatusOr<bool>(empty->status));
  } else if (const auto* data = std::get_if<scheduler::EnsureData>(&effect)) {
    loads_->Ensure(*data);
  } else if (const auto* stop = std::get_if<scheduler::StopData>(&effect)) {
    loads_->Stop(stop->job_uid);
  } else if (const auto* pins = std::get_if<scheduler::ReleasePins>(&effect)) {
    ReleasePins(pins->job_uid, pins->generation);
  }
}

void SchedulerActor::Ship(int64_t epoch) {
  std::vector<TelemetryActor::Record> records;
  std::vector<store::Delete> taken;
  if (StoreReached()) {
    for (auto it = store_->disk.records.lower_bound(SharedStore::kOutboxPrefix);
         it != store_->disk.records.end() && records.size() < 20 &&
         absl::StartsWith(it->first, SharedStore::kOutboxPrefix);
         ++it) {
      int64_t sequence = 0;
      if (!absl::SimpleAtoi(it->first.substr(sizeof(SharedStore::kOutboxPrefix) - 1), &sequence)) {
        return world().Violate(absl::StrCat("not of the outbox: ", it->first));
      }
      records.push_back({it->second, sequence});
      taken.push_back({.key = it->first, .end = ""});
    }
  }
  if (records.empty()) {
    return Later(absl::Milliseconds(700), [this, epoch] {
      if (epoch_ == epoch) Ship(epoch);
    });
  }
  network_->Call<bool>(
      this, telemetry_,
      [this, records](const auto& reply) { telemetry_->Append("scheduler@1", records, reply); },
      [this, epoch, taken](const absl::StatusOr<bool>& done) {
        if (epoch_ != epoch) return;
        if (done.ok()) {
          return pipe_->Submit({}, taken, [this, epoch](int64_t) {
            if (epoch_ == epoch) Ship(epoch);
          });
        }
        Later(absl::Seconds(2), [this, epoch] {
          if (epoch_ == epoch) Ship(epoch);
        });
      });
}

void SchedulerActor::ReleasePins(const std::string& job_uid, int64_t generation) {
  network_->Call<bool>(
      this, loader_,
      [this, holder = absl::StrCat(job_uid, "/", generation)](const auto& reply) {
        loader_->ReleasePins(holder, /*node=*/"", reply);
      },
      [this, epoch = epoch_, job_uid, generation](absl::StatusOr<bool> done) {
        if (epoch_ != epoch) return;
        if (done.ok()) return Apply(scheduler::PinsReleased{job_uid, generation});
        Later(absl::Seconds(2), [this, epoch, job_uid, generation] {
          if (epoch_ == epoch) ReleasePins(job_uid, generation);
        });
      });
}

void SchedulerActor::AnswerDeposed(scheduler::SessionId session, int64_t sequence) {
  capstan::type::v1::SessionDown message;
  capstan::type::v1::RenewalAnswer& answer = *message.mutable_renewal_answer();
  answer.set_sequence(sequence);
  answer.mutable_confirmation_age();
  answer.mutable_token()->set_store_incarnation(1);
  answer.mutable_token()->set_leader_epoch(epoch_);
  sessions_.at(session)->SendDown(std::move(message));
}

Network::UpperEnd SchedulerActor::Accept(std::shared_ptr<Pipe> pipe) {
  Network::UpperEnd end;
  if (core_ == nullptr) return end;
  const scheduler::SessionId session = next_session_++;
  sessions_[session] = std::move(pipe);
  end.received = [this, session](const capstan::type::v1::SessionUp& message) {
    if (core_ == nullptr || sessions_.count(session) == 0) return;
    switch (message.message_case()) {
      case capstan::type::v1::SessionUp::kHello:
        return Apply(scheduler::HelloReceived{session, message.hello()});
      case capstan::type::v1::SessionUp::kRenewal:
        if (mutants_->deposed_leader_answers && Read().boot >= leader_until_) {
          return AnswerDeposed(session, message.renewal().sequence());
        }
        return Apply(
            scheduler::RenewalReceived{session, message.renewal().sequence(), leader_until_});
      case capstan::type::v1::SessionUp::kObservations:
        return Apply(scheduler::ObservationsReceived{session, message.observations()});
      case capstan::type::v1::SessionUp::MESSAGE_NOT_SET:
        return;
    }
  };
  end.closed = [this, session] {
    if (sessions_.erase(session) != 0 && core_ != nullptr) {
      Apply(scheduler::SessionClosed{session});
    }
  };
  return end;
}

template <typename T, typename Call>
void SchedulerActor::Take(Call call, Reply<T> reply) {
  if (core_ == nullptr) return reply(absl::UnavailableError("not the leader"));
  call.call = next_call_++;
  std::get<Calls<T>>(calls_)[call.call] = std::move(reply);
  Apply(call);
}

void SchedulerActor::CreateJob(scheduler::CreateJob call, Reply<Job> reply) {
  Take(std::move(call), std::move(reply));
}

void SchedulerActor::UpdateJob(scheduler::UpdateJob call, Reply<Job> reply) {
  Take(std::move(call), std::move(reply));
}

void SchedulerActor::CancelJob(scheduler::CancelJob call, Reply<Job> reply) {
  Take(std::move(call), std::move(reply));
}

void SchedulerActor::CreateQueue(scheduler::CreateQueue call, Reply<Queue> reply) {
  Take(std::move(call), std::move(reply));
}

void SchedulerActor::UpdateQueue(scheduler::UpdateQueue call, Reply<Queue> reply) {
  Take(std::move(call), std::move(reply));
}

SchedulerActor::Fingerprint SchedulerActor::TakeFingerprint() const {
  return {.records = scheduler::AllRecords(core_->model()),
          .stored = store_->disk.records,
          .next_deadline = core_->NextDeadline(),
          .rounds = core_->rounds(),
          .waiting = core_->waiting_jobs()};
}

void SchedulerActor::SimulatePlacement(const SimulatePlacementRequest& given,
                                       const Reply<SimulatePlacementResponse>& reply) {
  if (core_ == nullptr) return reply(absl::UnavailableError("not the leader"));
  const SimulatePlacementRequest request = scheduler::WithDefaults(config_, given);
  const Fingerprint before = TakeFingerprint();
  absl::StatusOr<SimulatePlacementResponse> response;
  {
    scheduler::Simulation simulation(
        config_, scheduler::StateForSimulation(core_->model(), request), Read());
    response = simulation.Run(request, "person/1000");
  }
  if (mutants_->simulation_submits && request.jobs_size() > 0) {
    scheduler::CreateJob create;
    create.project = request.parent();
    create.uid = world().random().Uuid4();
    create.spec = request.jobs(0);
    Apply(create);
    if (core_ == nullptr) return;
  }
  if (TakeFingerprint() != before)
    world().Violate("a simulation of placement has changed something");
  reply(std::move(response));
}

void SchedulerActor::CordonNode(scheduler::CordonNode call, Reply<Node> reply) {
  Take(std::move(call), std::move(reply));
}

void SchedulerActor::UncordonNode(scheduler::UncordonNode call, Reply<Node> reply) {
  Take(std::move(call), std::move(reply));
}

void SchedulerActor::CreateMaintenanceWindow(scheduler::CreateMaintenanceWindow call,
                                             Reply<MaintenanceWindow> reply) {
  Take(std::move(call), std::move(reply));
}

void SchedulerActor::DeleteMaintenanceWindow(scheduler::DeleteMaintenanceWindow call,
                                             Reply<bool> reply) {
  Take(std::move(call), std::move(reply));
}

void SchedulerActor::CreateCapacityOrder(scheduler::CreateCapacityOrder call,
                                         Reply<CapacityOrder> reply) {
  Take(std::move(call), std::move(reply));
}

void SchedulerActor::DeleteCapacityOrder(scheduler::DeleteCapacityOrder call, Reply<bool> reply) {
  Take(std::move(call), std::move(reply));
}

absl::StatusOr<std::vector<SchedulerActor::WaitingJob>> SchedulerActor::WaitingJobs() const {
  if (core_ == nullptr) return absl::UnavailableError("not the leader");
  std::vector<WaitingJob> waiting;
  for (const auto& [uid, job] : core_->model().jobs) {
    if (job.state.state() != Job::STATE_QUEUED || scheduler::IsArray(job)) continue;
    waiting.push_back(
        {job.spec.name(), scheduler::DemandClassId(scheduler::DemandNeed::Of(job).key)});
  }
  return waiting;
}

absl::StatusOr<std::vector<capstan::scheduler::v1::Node>> SchedulerActor::Nodes() const {
  if (core_ == nullptr) return absl::UnavailableError("not the leader");
  std::vector<capstan::scheduler::v1::Node> nodes;
  for (const auto& [id, known] : core_->model().nodes) {
    const auto stored = store_->disk.records.find(scheduler::NodeKey(id.cluster, id.node));
    capstan::scheduler::records::v1::NodeRecord record;
    if (stored == store_->disk.records.end() || !record.ParseFromString(stored->second)) continue;
    nodes.push_back(scheduler::RenderNode(id, record, {}, {}));
  }
  return nodes;
}

bool SchedulerActor::Tell(const scheduler::Event& call) {
  if (core_ == nullptr) return false;
  Apply(call);
  return true;
}

}  // namespace capstan::simulation
