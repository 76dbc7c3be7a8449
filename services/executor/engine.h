#ifndef CAPSTAN_SERVICES_EXECUTOR_ENGINE_H_
#define CAPSTAN_SERVICES_EXECUTOR_ENGINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "libs/engine/core_loop.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/rpc/backoff.h"
#include "libs/session/channel.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "libs/trace/span.h"
#include "services/executor/core/executor_core.h"
#include "services/executor/core/step.h"

namespace capstan::executor {

// Owns the executor's core: feeds it the sessions, persists, and carries out what it decides. Lives
// on its strand, construction and destruction included.
class Engine {
 public:
  struct Deps {
    // All must outlive the engine; `registry` may be null.
    Strand* strand = nullptr;
    store::Store* store = nullptr;
    session::UpDialer* scheduler = nullptr;
    const log::Logger* logger = nullptr;
    metrics::Registry* registry = nullptr;
    // May be null.
    trace::Sink* spans = nullptr;
  };

  Engine(CoreConfig config, const Deps& deps, Random random);
  ~Engine();

  // Reads the store and dials the scheduler; `ready` runs once agents are admitted.
  void Start(std::function<void()> ready);
  // Ends all sessions and opens no more.
  void Stop();

  // An agent's stream. Before the core is there, or after Stop, it is ended with UNAVAILABLE, and
  // the number returned means nothing.
  SessionId OnAgentConnected(const std::string& node,
                             std::shared_ptr<session::DownChannel> channel);
  void OnAgentMessage(SessionId session, capstan::type::v1::SessionUp message);
  void OnAgentClosed(SessionId session);
  // After a message: has the next one read, which is at once unless much waits to be stored. What
  // goes to agents waits for all that was to be stored before, and with it what renews their leases.
  void PaceAgent(absl::AnyInvocable<void()> read_on) { loop_.WhenRelieved(std::move(read_on)); }

  const ExecutorCore* core() const { return loop_.core(); }

 private:
  using Loop = engine::CoreLoop<ExecutorCore, Event, Step, Tick>;
  struct Gauges;

  Loop::Hooks MakeHooks(CoreConfig config);
  void OnLoaded();
  void OnDropped(const absl::Status& why);
  void Dial();
  void CarryOut(Effect effect);
  void ShowMetrics(const ExecutorCore& core);

  Strand* const strand_;
  session::UpDialer* const scheduler_;
  const log::Logger* const logger_;
  metrics::Registry* const registry_;
  trace::Sink* const spans_;
  Random random_;
  rpc::Reconnect reconnect_;
  bool stopped_ = false;
  std::function<void()> ready_;
  // Numbers of sessions of either kind; never used again.
  SessionId last_session_ = 0;
  SessionId up_session_ = 0;
  std::shared_ptr<session::UpChannel> up_;
  std::map<SessionId, std::shared_ptr<session::DownChannel>> agents_;
  std::unique_ptr<Gauges> gauges_;
  Loop loop_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::executor

#endif  // CAPSTAN_SERVICES_EXECUTOR_ENGINE_H_
