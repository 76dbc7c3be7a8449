#ifndef CAPSTAN_SERVICES_NODE_AGENT_ENGINE_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ENGINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/engine/core_loop.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/random/random.h"
#include "libs/rpc/backoff.h"
#include "libs/session/channel.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "libs/trace/context.h"
#include "libs/trace/span.h"
#include "services/node_agent/adapters/grant_book.h"
#include "services/node_agent/core/agent_core.h"
#include "services/node_agent/core/step.h"
#include "services/node_agent/identity_keeper.h"
#include "services/node_agent/log_shipper.h"
#include "services/node_agent/ports/data_access.h"
#include "services/node_agent/ports/gpu_devices.h"
#include "services/node_agent/ports/log_sink.h"
#include "services/node_agent/ports/mig_devices.h"
#include "services/node_agent/ports/node_probe.h"
#include "services/node_agent/ports/port_probe.h"
#include "services/node_agent/ports/task_identity.h"
#include "services/node_agent/ports/task_runtime.h"
#include "services/node_agent/ports/task_sockets.h"
#include "services/node_agent/ports/workload_api.h"
#include "services/node_agent/ports/workspace.h"
#include "services/node_agent/usage_sampler.h"

namespace capstan::node_agent {

// Owns the agent's core: feeds it the session, the machine and its shims, persists, and carries out
// what it decides. Lives on its strand, construction and destruction included.
class Engine {
 public:
  struct Options {
    CoreConfig core;
    // How often the machine is looked at.
    absl::Duration probe_every = absl::Seconds(10);
    absl::Duration log_poll = absl::Milliseconds(300);
  };
  // All must outlive the engine; `registry` may be null.
  struct Deps {
    Strand* strand = nullptr;
    // Runs what blocks on files.
    Strand* files = nullptr;
    store::Store* store = nullptr;
    session::UpDialer* executor = nullptr;
    TaskRuntime* runtime = nullptr;
    DataAccess* data = nullptr;
    Workspace* workspace = nullptr;
    // May be null: then Tasks have no identity.
    TaskIdentity* identity = nullptr;
    // May be null: then no Task that has a MIG instance is prepared.
    MigDevices* mig = nullptr;
    // May be null: then no Task that is to get whole GPUs is prepared.
    GpuDevices* gpus = nullptr;
    PortProbe* ports = nullptr;
    TaskSockets* sockets = nullptr;
    // May be null: then Tasks have no Workload API.
    WorkloadApi* workloads = nullptr;
    LogSink* logs = nullptr;
    // What the ports above show with their calls; may be null.
    GrantBook* grants = nullptr;
    // What a cgroup uses; empty where that is not sampled. Called on `files`.
    UsageSampler::Reader usage = {};
    // What Tasks use of devices, looked up on `driver`; empty where that is not sampled.
    UsageSampler::DeviceLook devices = {};
    Strand* driver = nullptr;
    // Told of each Task that runs, and of its end; may be empty.
    std::function<void(const ShipLogs& task)> task_runs = {};
    std::function<void(const session::TaskId& id)> task_ends = {};
    NodeProbe* probe = nullptr;
    const log::Logger* logger = nullptr;
    metrics::Registry* registry = nullptr;
    // May be null.
    trace::Sink* spans = nullptr;
  };

  Engine(Options options, const Deps& deps, Random random);
  ~Engine();

  // Reads the store, finds what runs, looks at the machine, dials the executor; `ready` runs then.
  void Start(std::function<void()> ready);
  // Stops every Task with its grace; `done` runs once no process, cgroup or folder of any is left,
  // and the executor has been told. New Tasks are refused from now on.
  void StopTasks(std::function<void()> done);
  // Ends the session and all that is periodic. Tasks run on.
  void Stop();

  const AgentCore* core() const { return loop_.core(); }

 private:
  using Loop = engine::CoreLoop<AgentCore, Event, Step, Tick>;

  Loop::Hooks MakeHooks();
  void OnLoaded();
  void Discover();
  void OnDropped(const absl::Status& why);
  void Dial();
  void Probe();
  void CarryOut(Effect effect);
  // What the Task is at now; absl::nullopt if it belongs to no trace.
  absl::optional<trace::Context> TraceOf(const Effect& effect) const;
  void CommitTaskCheckpoint(const CommitCheckpoint& commit);
  void OnStepped(const AgentCore& core);
  void CheckDrained();
  // Steps the core with the answer to an effect, if the engine still lives.
  void Answer(const session::TaskId& id, Ticket ticket, absl::Status status,
              node_agent::Answer answer = std::monostate());
  // A callback that answers an effect with a bare status.
  absl::AnyInvocable<void(absl::Status)> Answering(const session::TaskId& id, Ticket ticket);

  const Options options_;
  const Deps deps_;
  Random random_;
  rpc::Reconnect reconnect_;
  bool stopped_ = false;
  std::function<void()> ready_;
  std::function<void()> drained_;
  SessionId last_session_ = 0;
  SessionId up_session_ = 0;
  std::shared_ptr<session::UpChannel> up_;
  Strand::TimerId probe_timer_ = 0;
  // Tasks that wait for a checkpoint's commit.
  uint64_t last_request_ = 0;
  std::map<uint64_t, TaskSockets::Answer> requests_;
  IdentityKeeper identities_;
  LogShipper shipper_;
  UsageSampler usage_;
  Loop loop_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ENGINE_H_
