#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_PROCESS_BENCH_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_PROCESS_BENCH_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "libs/cgroup/cgroup.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/adapters/process_task_runtime.h"
#include "services/node_agent/ports/task_runtime_bench.h"

namespace capstan::node_agent {

// This machine, with real shims, cgroups and processes. Waiting ends on an
// event or, when nothing comes of it, after 30 s.
class ProcessBench final : public TaskRuntimeBench {
 public:
  // Null unless root: the test is then to be skipped. `mountinfo` tells which cgroup hierarchies
  // there are; the machine's own by default.
  static std::unique_ptr<ProcessBench> Make(const std::string& mountinfo = "/proc/self/mountinfo");
  ~ProcessBench() override;

  TaskRuntime& runtime() override { return *runtime_; }
  Strand& strand() override { return *strand_; }
  void RestartAgent() override;
  bool RunUntil(std::function<bool()> condition) override;
  void Complete(Program program, capstan::nodeagent::v1::ShimSpec* spec) override;
  void ToShim(const capstan::type::v1::TaskKey& key, Act act) override;
  void CrashTask(const capstan::type::v1::TaskKey& key) override;
  bool ProgramListens(const capstan::type::v1::TaskKey& key) override;
  bool TaskLives(const capstan::type::v1::TaskKey& key) override;

  const std::string& data_folder() const { return data_folder_; }
  std::string Folder(const capstan::type::v1::TaskKey& key) const;
  // All that Complete sets, for a shell script.
  void Script(const std::string& script, capstan::nodeagent::v1::ShimSpec* spec);
  // Gives the Task its place and starts it, as the agent does; says how that went.
  absl::Status Start(capstan::nodeagent::v1::ShimSpec spec,
                     const capstan::type::v1::Resources& limits = {});
  capstan::nodeagent::v1::ShimStatus Status(const capstan::type::v1::TaskKey& key) const;
  // The program's pid on the host: the child of the Task's init.
  pid_t ProgramPid(const capstan::type::v1::TaskKey& key) const;

 private:
  explicit ProcessBench(const std::string& mountinfo);

  void MakeRuntime();

  std::string data_folder_;
  std::string group_name_;
  SystemClock clock_;
  std::unique_ptr<cgroup::Tree> groups_;
  std::unique_ptr<ThreadStrand> strand_;
  std::unique_ptr<ProcessTaskRuntime> runtime_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_PROCESS_BENCH_H_
