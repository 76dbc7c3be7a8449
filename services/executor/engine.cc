#include "services/executor/engine.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/crash_point/crash_point.h"
#include "libs/crash_point/points.h"
#include "libs/status/error.h"
#include "services/executor/core/keys.h"

namespace capstan::executor {

using capstan::type::v1::SessionDown;
using capstan::type::v1::SessionUp;

namespace {

// For an agent whose session is one too many.
constexpr absl::Duration kBusyDelay = absl::Seconds(1);

}  // namespace

struct Engine::Gauges {
  explicit Gauges(metrics::Registry* registry)
      : tasks(registry->AddGauge("tasks", "Tasks known")),
        live(registry->AddGauge("tasks_live", "Tasks not ended")),
        nodes(registry->AddGauge("nodes", "Nodes known")),
        silent(registry->AddGauge("nodes_silent", "Nodes not heard for suspect_after")),
        unacknowledged(registry->AddGauge("journal_unacknowledged",
                                          "Observations the scheduler has not acknowledged")),
        age(registry->AddGauge("confirmation_age_seconds",
                               "Time since the newest confirmation; -1 without one")),
        connected(registry->AddGauge("scheduler_connected", "1 while the session is open")) {}
  metrics::Gauge tasks;
  metrics::Gauge live;
  metrics::Gauge nodes;
  metrics::Gauge silent;
  metrics::Gauge unacknowledged;
  metrics::Gauge age;
  metrics::Gauge connected;
};

Engine::Engine(CoreConfig config, const Deps& deps, Random random)
    : strand_(deps.strand),
      scheduler_(deps.scheduler),
      logger_(deps.logger),
      registry_(deps.registry),
      spans_(deps.spans),
      random_(random),
      reconnect_(strand_, &random_, [this] { Dial(); },
                 {.initial = absl::Milliseconds(100), .max = absl::Seconds(3)}),
      gauges_(registry_ == nullptr ? nullptr : std::make_unique<Gauges>(registry_)),
      loop_(strand_, deps.store, kPrefix, MakeHooks(std::move(config))) {}

Engine::~Engine() { Stop(); }

Engine::Loop::Hooks Engine::MakeHooks(CoreConfig config) {
  Loop::Hooks hooks;
  hooks.load = [config = std::move(config)](const std::vector<store::KeyValue>& records, Now now) {
    return ExecutorCore::Load(config, records, now);
  };
  hooks.loaded = [this] { OnLoaded(); };
  hooks.dropped = [this](const absl::Status& why) { OnDropped(why); };
  hooks.carry_out = [this](Effect effect) { CarryOut(std::move(effect)); };
  if (gauges_ != nullptr) hooks.stepped = [this](const ExecutorCore& core) { ShowMetrics(core); };
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
  if (up_ != nullptr) up_->Finish(absl::OkStatus());
  up_.reset();
  for (auto& [id, agent] : agents_) {
    agent->Finish(absl::UnavailableError("the executor is stopping"));
  }
  agents_.clear();
}

void Engine::OnLoaded() {
  if (stopped_) return;
  loop_.Apply(Started{});
  if (up_ == nullptr) Dial();
  if (ready_) std::exchange(ready_, nullptr)();
}

void Engine::OnDropped(const absl::Status& why) {
  logger_->Error("state dropped, it is read again", {{"cause", why}});
  // Whoever talked to the core that is gone begins anew.
  if (up_ != nullptr) up_->Finish(absl::AbortedError("the executor's store failed"));
  up_.reset();
  up_session_ = 0;
  for (auto& [id, agent] : std::exchange(agents_, {})) {
    agent->Finish(absl::UnavailableError("the executor's store failed"));
  }
}

void Engine::Dial() {
  if (stopped_ || loop_.core() == nullptr || up_ != nullptr) return;
  const SessionId session = ++last_session_;
  up_session_ = session;
  const std::weak_ptr<char> alive = alive_;
  up_ = scheduler_->Open(session::UpCallbacks{
      .on_message =
          [this, alive, session](SessionDown message) {
            if (alive.expired() || up_session_ != session) return;
            reconnect_.Succeeded();
            loop_.Apply(UpMessage{session, std::move(message)});
          },
      .on_closed =
          [this, alive, session](const absl::Status& why) {
            if (alive.expired() || stopped_ || up_session_ != session) return;
            logger_->Info("session with the scheduler ended", {{"cause", why}});
            up_.reset();
            up_session_ = 0;
            loop_.Apply(UpDisconnected{session});
            reconnect_.Lost();
          }});
  loop_.Apply(UpConnected{session});
}

SessionId Engine::OnAgentConnected(const std::string& node,
                                   std::shared_ptr<session::DownChannel> channel) {
  const SessionId session = ++last_session_;
  if (stopped_) {
    channel->Finish(absl::UnavailableError("the executor is stopping"));
    return session;
  }
  if (loop_.congested()) {
    channel->Finish(status::WithRetryDelay(
        status::Error(absl::StatusCode::kResourceExhausted, "EXECUTOR_BUSY",
                      "more sessions come than the executor takes; come again later"),
        kBusyDelay));
    return session;
  }
  agents_[session] = std::move(channel);
  loop_.Apply(AgentConnected{session, node});
  return session;
}

void Engine::OnAgentMessage(SessionId session, SessionUp message) {
  if (agents_.count(session) != 0) loop_.Apply(AgentMessage{session, std::move(message)});
}

void Engine::OnAgentClosed(SessionId session) {
  if (agents_.erase(session) != 0) loop_.Apply(AgentDisconnected{session});
}

void Engine::CarryOut(Effect effect) {
  if (auto* up = std::get_if<SendUp>(&effect)) {
    if (up_ == nullptr || up->session != up_session_) return;
    CrashPoint(crash::kExecutorBeforeSendUp);
    const absl::Status sent = up_->Send(std::move(up->message));
    CrashPoint(crash::kExecutorSentUp);
    // A session that cannot take everything is begun anew: its first report holds it all.
    if (!sent.ok()) up_->Finish(sent);
  } else if (auto* close = std::get_if<CloseUp>(&effect)) {
    if (up_ != nullptr && close->session == up_session_) up_->Finish(close->status);
  } else if (auto* send = std::get_if<SendAgent>(&effect)) {
    const auto agent = agents_.find(send->session);
    if (agent == agents_.end()) return;
    CrashPoint(crash::kExecutorBeforeSendAgent);
    const absl::Status sent = agent->second->Send(std::move(send->message));
    CrashPoint(crash::kExecutorSentAgent);
    if (!sent.ok()) agent->second->Finish(sent);
  } else if (auto* end = std::get_if<CloseAgent>(&effect)) {
    const auto agent = agents_.find(end->session);
    if (agent == agents_.end()) return;
    agent->second->Finish(end->status);
    agents_.erase(agent);
  } else if (auto* told = std::get_if<TellSpan>(&effect)) {
    if (spans_ == nullptr) return;
    told->span.end = strand_->clock().Read().wall;
    spans_->End(std::move(told->span));
  } else if (auto* alarm = std::get_if<Alarm>(&effect)) {
    logger_->Warning("alarm", {{"reason", alarm->reason}, {"cause", alarm->message}});
    if (registry_ != nullptr) {
      registry_
          ->AddCounter("alarms_total", "What an operator must know", {{"reason", alarm->reason}})
          .Increment();
    }
  }
}

void Engine::ShowMetrics(const ExecutorCore& core) {
  int silent = 0;
  for (const auto& [name, node] : core.nodes()) silent += node.silent() ? 1 : 0;
  gauges_->tasks.Set(static_cast<double>(core.tasks().entries().size()));
  gauges_->live.Set(static_cast<double>(core.tasks().live()));
  gauges_->nodes.Set(static_cast<double>(core.nodes().size()));
  gauges_->silent.Set(silent);
  gauges_->unacknowledged.Set(static_cast<double>(core.unacknowledged()));
  gauges_->connected.Set(core.up_connected() ? 1 : 0);
  gauges_->age.Set(core.confirmed_at().has_value()
                       ? absl::ToDoubleSeconds(strand_->clock().Read().boot - *core.confirmed_at())
                       : -1);
}

}  // namespace capstan::executor
