#ifndef CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_RUNTIME_BENCH_H_
#define CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_RUNTIME_BENCH_H_

#include <functional>

#include "libs/strand/strand.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/ports/task_runtime.h"

namespace capstan::node_agent {

// A machine with one agent on it, under test.
class TaskRuntimeBench {
 public:
  enum class Program {
    kExitsWith3,
    // Exits 0 on SIGTERM.
    kRunsUntilTerminated,
    kIgnoresTermination,
    kCannotBeExecuted,
  };

  virtual ~TaskRuntimeBench() = default;

  virtual TaskRuntime& runtime() = 0;
  virtual Strand& strand() = 0;
  // The agent crashes and comes back; Tasks and shims know nothing of it.
  virtual void RestartAgent() = 0;
  // Runs the strand until the condition, which is evaluated on it, holds. False if it never does.
  virtual bool RunUntil(std::function<bool()> condition) = 0;
  // argv and everything else that the machine needs; key, deadline and grace are set already.
  virtual void Complete(Program program, capstan::nodeagent::v1::ShimSpec* spec) = 0;

  enum class Act { kKill, kStop, kContinue };
  virtual void ToShim(const capstan::type::v1::TaskKey& key, Act act) = 0;
  // SIGSEGV to the Task's program from outside.
  virtual void CrashTask(const capstan::type::v1::TaskKey& key) = 0;
  // True once a running program does with SIGTERM what it is meant to.
  virtual bool ProgramListens(const capstan::type::v1::TaskKey& key) = 0;
  // True while a process of the Task lives.
  virtual bool TaskLives(const capstan::type::v1::TaskKey& key) = 0;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_PORTS_TASK_RUNTIME_BENCH_H_
