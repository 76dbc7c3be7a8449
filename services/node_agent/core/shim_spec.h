// What a shim is told to run: the Task contract's environment, mounts and limits.
#ifndef CAPSTAN_SERVICES_NODE_AGENT_CORE_SHIM_SPEC_H_
#define CAPSTAN_SERVICES_NODE_AGENT_CORE_SHIM_SPEC_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/session/task_id.h"
#include "libs/time/clock.h"
#include "proto/capstan/nodeagent/v1/shim.pb.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/core/records.pb.h"

namespace capstan::node_agent {

// How Tasks are kept apart on this Node.
struct Isolation {
  // PID, mount and IPC namespaces are made for each Task.
  bool namespaces = false;
  // And a user namespace, since the agent is not root.
  bool user_namespace = false;
  // Existing paths that a Task must not see: the platform's data folder, its sockets.
  std::vector<std::string> hidden_paths;
  // Folders of the machine that Tasks may write where the files' modes let them; everything else of
  // the machine's is read-only to them.
  std::vector<std::string> shared_paths = {};
  // Folder with the socket of the SPIFFE Workload API, kWorkloadSocket; empty if there is none.
  std::string workload_folder = {};
};

// The Workload API's socket in its folder.
inline constexpr char kWorkloadSocket[] = "api.sock";

// Folders below a Task's own one.
std::string WorkFolder(const capstan::nodeagent::record::v1::Task& task);
std::string MetricsFile(const capstan::nodeagent::record::v1::Task& task);
std::string SocketFile(const capstan::nodeagent::record::v1::Task& task);

// `<ALIAS>` of CAPSTAN_DATASET_<ALIAS>: the alias, or the Dataset's id, upper-cased, other
// characters than [A-Z0-9] as `_`.
std::string DatasetVariable(const capstan::type::v1::DatasetMount& mount);

// TensorFlow's cluster description of a gang, all of its ranks as workers.
std::string TfConfig(const capstan::type::v1::Rendezvous& rendezvous);

// The Task's whole environment by name, as docs/task_contract.md fixes it; Capstan's variables win
// over the Job's.
std::map<std::string, std::string> TaskEnvironment(
    const session::TaskId& id, const capstan::type::v1::DesiredTask& order,
    const capstan::nodeagent::record::v1::Task& task);

// The spec of a prepared Task whose order is START.
capstan::nodeagent::v1::ShimSpec BuildShimSpec(const session::TaskId& id,
                                               const capstan::type::v1::DesiredTask& order,
                                               const capstan::nodeagent::record::v1::Task& task,
                                               const Isolation& isolation, int64_t log_limit_bytes,
                                               BootTime deadline);

// The folder that a checkpoint request names: `directory` relative to the output folder, or
// absolute below it; INVALID_ARGUMENT otherwise, also for the output folder itself and for `..`.
absl::StatusOr<std::string> CheckpointDirectory(absl::string_view output_directory,
                                                absl::string_view directory);

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_CORE_SHIM_SPEC_H_
