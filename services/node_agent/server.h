#ifndef CAPSTAN_SERVICES_NODE_AGENT_SERVER_H_
#define CAPSTAN_SERVICES_NODE_AGENT_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/security/server_credentials.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/access.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "libs/trace/span.h"
#include "proto/capstan/type/v1/task.pb.h"
#include "services/node_agent/adapters/peer_grpc_network.h"

namespace capstan::node_agent {

// Where the Node has its data.
struct DataCacheConfig {
  // The Node shares the file system of data_loader's Site, and its Tasks use that directly. Else it
  // has a Site of its own, to which content is brought, and the rest of this applies.
  bool shared_site = true;
  // Absolute; empty means `cache` in the agent's folder.
  std::string folder;
  // What versions, Bundles and checkpoints may take there; the least recently used leave when room
  // is needed. 0 means no bound but the disk's.
  int64_t limit_bytes = 0;
  // Contents that are brought at once.
  int threads = 2;
  // `host:port` at which other Nodes of the Cluster fetch what it holds; empty: nothing is given to
  // others or taken from them. How many may read at once, and how much a second; 0 is no bound.
  std::string peer_address;
  int peer_uploads = 4;
  int64_t peer_bytes_per_second = 0;
};

struct ServerConfig {
  std::string cluster;
  std::string node;
  // Address at which peers reach the Node's ports.
  std::string host = "127.0.0.1";
  // The agent's folder, absolute; must exist, traversable for everyone (0711). Holds `tasks/`.
  std::string data_folder;
  // What runs a shim when the Task's folder is appended, e.g. {"/usr/bin/capstan", "shim"}.
  std::vector<std::string> shim_command;
  // Name of the agent's cgroups; differs between agents of one machine.
  std::string cgroup_name = "capstan";
  // Paths that Tasks must not see, besides the data folder: the platform's, its sockets.
  std::vector<std::string> hidden_paths;
  // Existing folders of the machine that Tasks may write where the files' modes let them;
  // everything else of the machine's is read-only to them.
  std::vector<std::string> shared_paths = {};
  // Ports for Tasks, both ends included; those in the kernel's own range are left out.
  int32_t first_port = 20000;
  int32_t last_port = 29999;
  std::map<std::string, std::string> labels;
  // What keeps Jobs off the Node that do not tolerate it.
  std::vector<capstan::type::v1::Taint> taints = {};
  // Devices by name.
  std::map<std::string, int64_t> accelerators;
  // GPUs that are said to be there in MIG mode. None with `discover_gpus`.
  std::vector<capstan::type::v1::MigGpu> mig_gpus = {};
  // Has the machine's GPUs found, beside `accelerators`, and MIG instances made on them.
  bool discover_gpus = false;
  // What is kept for the platform.
  int64_t reserved_cpu_millis = 500;
  int64_t reserved_memory_bytes = int64_t{2} << 30;
  // Folder of the SPIFFE Workload API's socket, which every Task sees; empty for `workload` in the
  // data folder. The socket's path may have 107 bytes; with a longer one the Node has no Workload
  // API, and says so in its log.
  std::string workload_folder;
  // Bound of each Task's unshipped log.
  int64_t log_limit_bytes = int64_t{1} << 30;
  DataCacheConfig data_cache;
};

// What the server is given; all must outlive it.
struct ServerDeps {
  // On which `store` calls back.
  Strand* strand = nullptr;
  // The agent's own.
  store::Store* store = nullptr;
  const log::Logger* logger = nullptr;
  // May be null.
  metrics::Registry* registry = nullptr;
  // Where spans of Tasks go; may be null.
  trace::Sink* spans = nullptr;
  std::shared_ptr<grpc::Channel> executor;
  std::shared_ptr<grpc::Channel> data_loader;
  std::shared_ptr<grpc::Channel> telemetry;
  // May be null: then Tasks have no identity.
  std::shared_ptr<grpc::Channel> credentials;
  // Other Nodes: who of them may call, as whom they see this one, and how they are reached. Needed
  // with DataCacheConfig::peer_address alone.
  auth::Access* access = nullptr;
  std::shared_ptr<grpc::ServerCredentials> peer_credentials;
  absl::Duration max_connection_age = absl::Hours(12);
  PeerDialer dial_peer;
  // Where refusals of the Workload API are recorded; may be null.
  audit::AuditSink* audit = nullptr;
  // Of back-off.
  uint64_t seed = 0;
};

// What becomes of the Tasks when the agent goes.
enum class StopTasks {
  // They run on under their shims, to be re-adopted.
  kNo,
  // They are stopped with their grace, and nothing of them stays.
  kYes,
};

// The whole node agent in one process. It dials; the one port that it may serve gives content to
// other Nodes.
class Server {
 public:
  // Reads the store, re-adopts what runs, and begins to dial the executor. Blocks for the store and
  // the machine; not to be called on the strand.
  static absl::StatusOr<std::unique_ptr<Server>> Create(const ServerConfig& config,
                                                        const ServerDeps& deps);
  // As Drain(0, kNo). Not to be called on the strand.
  ~Server();

  // OK while the session with the executor is open; for /readyz. Blocks for the strand.
  absl::Status Ready() const;

  // Ends the agent's work, within `within`. With kYes: takes no new Task, stops all with their
  // grace, reports their ends, ships their logs, removes their folders and cgroups;
  // DEADLINE_EXCEEDED, with how many are left, if that takes longer (they end by their own graces
  // and deadlines all the same). Executor and telemetry should still be there. Not to be called on
  // the strand.
  absl::Status Drain(absl::Duration within, StopTasks stop_tasks);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_SERVER_H_
