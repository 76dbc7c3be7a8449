#ifndef CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_PROCESS_TASK_RUNTIME_H_
#define CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_PROCESS_TASK_RUNTIME_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/cgroup/cgroup.h"
#include "libs/strand/strand.h"
#include "services/node_agent/ports/task_runtime.h"

namespace capstan::node_agent {

// Tasks as processes of this machine, each under a shim. Blocking work is done on one thread of its
// own, removal of folders on another; callbacks are posted to the strand. Destroying it leaves all
// Tasks running and drops calls that are not answered yet.
class ProcessTaskRuntime final : public TaskRuntime {
 public:
  struct Options {
    // Holds `tasks/` and `trash/`; must exist, on one file system, absolute.
    std::string data_folder;
    // What runs a shim when the Task's folder is appended, e.g. {"/usr/bin/capstan", "shim"}.
    std::vector<std::string> shim_command;
    // The cgroups of this agent's Tasks.
    cgroup::Tree groups;
  };

  // `strand` outlives the runtime.
  static absl::StatusOr<std::unique_ptr<ProcessTaskRuntime>> Create(Options options,
                                                                    Strand* strand);
  ~ProcessTaskRuntime() override;

  void SetStatusCallback(StatusCallback on_status) override;
  void MakePlace(const capstan::type::v1::TaskKey& key, const capstan::type::v1::Resources& limits,
                 int64_t unix_uid,
                 absl::AnyInvocable<void(absl::StatusOr<TaskPlace>)> done) override;
  void Start(const capstan::nodeagent::v1::ShimSpec& spec, DoneCallback done) override;
  void Control(const capstan::type::v1::TaskKey& key,
               const capstan::nodeagent::v1::ShimControl& control, DoneCallback done) override;
  void Kill(const capstan::type::v1::TaskKey& key, DoneCallback done) override;
  void Discover(absl::AnyInvocable<void(absl::StatusOr<std::vector<FoundTask>>)> done) override;
  void Remove(const capstan::type::v1::TaskKey& key, DoneCallback done) override;

 private:
  class Worker;

  explicit ProcessTaskRuntime(std::unique_ptr<Worker> worker);

  std::unique_ptr<Worker> worker_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_ADAPTERS_PROCESS_TASK_RUNTIME_H_
