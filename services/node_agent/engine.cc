#include "services/node_agent/engine.h"

#include <array>
#include <utility>
#include <variant>

#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/status/error.h"
#include "services/node_agent/core/keys.h"

namespace capstan::node_agent {

using capstan::type::v1::SessionDown;
using session::TaskId;

namespace {

// Shows the stages as labels; in the order of the record's enum.
constexpr std::array<const char*, 7> kStages = {"none",    "preparing", "prepared", "starting",
                                                "running", "ending",    "ended"};

}  // namespace

Engine::Engine(Options options, const Deps& deps, Random random)
    : options_(std::move(options)),
      deps_(deps),
      random_(random),
      reconnect_(deps_.strand, &random_, [this] { Dial(); },
                 {.initial = absl::Milliseconds(100), .max = absl::Seconds(3)}),
      identities_(deps_.strand, deps_.identity, &random_, deps_.logger, deps_.registry,
                  [this](const session::TaskId& id) {
                    if (deps_.workloads != nullptr) deps_.workloads->Renewed(id);
                  }),
      shipper_(
          {.producer = options_.core.cluster + "/" + options_.core.node, .poll = options_.log_poll},
          deps_.strand, deps_.files, deps_.store, deps_.logs,
          [this](const TaskId& id) { loop_.Apply(LogsShipped{id}); }, deps_.registry),
      usage_({.producer = options_.core.cluster + "/" + options_.core.node}, deps_.strand,
             deps_.files, deps_.logs, deps_.usage, deps_.registry),
      loop_(deps_.strand, deps_.store, kPrefix, MakeHooks()) {
  if (deps_.devices) usage_.LookAtDevices(deps_.driver, deps_.devices);
  const std::weak_ptr<char> alive = alive_;
  deps_.runtime->SetStatusCallback([this, alive](const capstan::type::v1::TaskKey& key,
                                                 const capstan::nodeagent::v1::ShimStatus& status) {
    if (!alive.expired()) loop_.Apply(ShimReported{TaskId::Of(key), status});
  });
  deps_.sockets->SetCheckpointCallback([this, alive](const TaskId& id, const std::string& directory,
                                                     int64_t step, TaskSockets::Answer answer) {
    if (alive.expired()) return;
    if (loop_.core() == nullptr) {
      return answer(absl::UnavailableError("the Node's agent is being restarted"));
    }
    const uint64_t request = ++last_request_;
    requests_[request] = std::move(answer);
    loop_.Apply(CheckpointAsked{id, request, directory, step});
  });
}

Engine::~Engine() { Stop(); }

Engine::Loop::Hooks Engine::MakeHooks() {
  Loop::Hooks hooks;
  hooks.load = [this](const std::vector<store::KeyValue>& records, Now now) {
    return AgentCore::Load(options_.core, records, now);
  };
  hooks.loaded = [this] { OnLoaded(); };
  hooks.dropped = [this](const absl::Status& why) { OnDropped(why); };
  hooks.carry_out = [this](Effect effect) { CarryOut(std::move(effect)); };
  hooks.stepped = [this](const AgentCore& core) { OnStepped(core); };
  return hooks;
}

void Engine::Start(std::function<void()> ready) {
  ready_ = std::move(ready);
  loop_.Start();
}

void Engine::Stop() {
  if (stopped_) return;
  stopped_ = true;
  reconnect_.Stop();
  if (probe_timer_ != 0) deps_.strand->Cancel(probe_timer_);
  probe_timer_ = 0;
  if (up_ != nullptr) up_->Finish(absl::OkStatus());
  up_.reset();
  requests_.clear();
  identities_.Clear();
  usage_.Clear();
}

void Engine::StopTasks(std::function<void()> done) {
  drained_ = std::move(done);
  loop_.Apply(StopAll{});
  CheckDrained();
}

void Engine::OnLoaded() {
  if (!stopped_) Discover();
}

void Engine::Discover() {
  deps_.runtime->Discover([this, alive = std::weak_ptr<char>(alive_)](
                              absl::StatusOr<std::vector<FoundTask>> found) {
    if (alive.expired() || stopped_ || loop_.core() == nullptr) return;
    if (!found.ok()) {
      // Without knowing what runs here nothing may be promised or started.
      deps_.logger->Error("cannot find out what runs here", {{"cause", found.status()}});
      deps_.strand->RunAfter(absl::Seconds(1), [this, alive] {
        if (!alive.expired() && !stopped_) Discover();
      });
      return;
    }
    Discovered discovered;
    for (FoundTask& task : *found) {
      discovered.found.push_back(Remains{std::move(task.key), task.has_spec, std::move(task.status),
                                         task.shim_alive, task.cgroup_empty});
    }
    loop_.Apply(discovered);
    if (drained_) loop_.Apply(StopAll{});
    Probe();
  });
}

void Engine::OnDropped(const absl::Status& why) {
  deps_.logger->Error("state dropped, it is read again", {{"cause", why}});
  if (up_ != nullptr) up_->Finish(absl::AbortedError("the agent's store failed"));
  up_.reset();
  up_session_ = 0;
  requests_.clear();
  // Those of Tasks that still run are given again.
  identities_.Clear();
  usage_.Clear();
}

void Engine::Probe() {
  if (probe_timer_ != 0) deps_.strand->Cancel(probe_timer_);
  probe_timer_ = 0;
  deps_.probe->Observe(
      [this, alive = std::weak_ptr<char>(alive_)](capstan::type::v1::NodeObservation observation) {
        if (alive.expired() || stopped_) return;
        loop_.Apply(NodeObserved{std::move(observation)});
        // The first report of a session names the Node, so it is looked at before the first
        // session.
        if (up_ == nullptr && up_session_ == 0) Dial();
        if (ready_) std::exchange(ready_, nullptr)();
        if (probe_timer_ != 0) return;
        probe_timer_ = deps_.strand->RunAfter(options_.probe_every, [this, alive] {
          if (!alive.expired()) Probe();
        });
      });
}

void Engine::Dial() {
  if (stopped_ || up_ != nullptr || loop_.core() == nullptr || !loop_.core()->discovered()) return;
  const SessionId session = ++last_session_;
  up_session_ = session;
  const std::weak_ptr<char> alive = alive_;
  up_ = deps_.executor->Open(session::UpCallbacks{
      .on_message =
          [this, alive, session](SessionDown message) {
            if (alive.expired() || up_session_ != session) return;
            reconnect_.Succeeded();
            loop_.Apply(UpMessage{session, std::move(message)});
          },
      .on_closed =
          [this, alive, session](const absl::Status& why) {
            if (alive.expired() || stopped_ || up_session_ != session) return;
            deps_.logger->Info("session with the executor ended", {{"cause", why}});
            up_.reset();
            loop_.Apply(UpDisconnected{session});
            reconnect_.Lost();
          }});
  loop_.Apply(UpConnected{session});
}

void Engine::Answer(const TaskId& id, Ticket ticket, absl::Status status,
                    node_agent::Answer answer) {
  CrashPoint(crash::kAgentAnswered);
  loop_.Apply(Answered{id, ticket, std::move(status), std::move(answer)});
}

absl::AnyInvocable<void(absl::Status)> Engine::Answering(const TaskId& id, Ticket ticket) {
  return [this, alive = std::weak_ptr<char>(alive_), id, ticket](absl::Status status) {
    if (!alive.expired()) Answer(id, ticket, std::move(status));
  };
}

void Engine::OnStepped(const AgentCore& core) {
  if (drained_) CheckDrained();
  if (deps_.registry == nullptr) return;
  std::array<int, kStages.size()> stages = {};
  for (const auto& [id, entry] : core.tasks()) ++stages[entry.record.stage()];
  for (size_t i = 1; i < kStages.size(); ++i) {
    deps_.registry->AddGauge("tasks", "Tasks by stage", {{"stage", kStages[i]}}).Set(stages[i]);
  }
  deps_.registry->AddGauge("executor_connected", "1 while the session is open")
      .Set(core.up_connected() ? 1 : 0);
  deps_.registry
      ->AddGauge("confirmation_age_seconds", "Time since the newest confirmation; -1 without one")
      .Set(core.confirmed_at().has_value()
               ? absl::ToDoubleSeconds(deps_.strand->clock().Read().boot - *core.confirmed_at())
               : -1);
}

void Engine::CheckDrained() {
  if (!drained_ || loop_.core() == nullptr || !loop_.core()->discovered() ||
      !loop_.core()->AllRemoved()) {
    return;
  }
  // After what the step in hand still sends: the executor should hear of the ends.
  deps_.strand->Post([this, alive = std::weak_ptr<char>(alive_)] {
    if (!alive.expired() && drained_) std::exchange(drained_, nullptr)();
  });
}

}  // namespace capstan::node_agent
