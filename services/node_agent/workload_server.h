#ifndef CAPSTAN_SERVICES_NODE_AGENT_WORKLOAD_SERVER_H_
#define CAPSTAN_SERVICES_NODE_AGENT_WORKLOAD_SERVER_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/denial_log.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/rpc/local_server.h"
#include "libs/session/task_id.h"
#include "libs/strand/strand.h"
#include "services/node_agent/adapters/task_peers.h"
#include "services/node_agent/ports/task_identity.h"
#include "services/node_agent/ports/task_tokens.h"
#include "services/node_agent/ports/workload_api.h"
#include "services/node_agent/workload_identities.h"

namespace capstan::node_agent {

// The Node's one socket of the SPIFFE Workload API.
//
// gRPC says nothing about the peer of a Unix socket, so connections are accepted here, attested
// (TaskPeers), and given to a gRPC server of that Task's own (rpc::LocalServer). One server a Task
// was chosen over one for all with a map from connections to Tasks: gRPC names connections of
// descriptors all alike, and a mistake in such a map would give a Task another's identity, while a
// server that was made for one Task cannot answer for another. Whoever is no Task gets a server
// that answers PERMISSION_DENIED to everything, for ten seconds; that is recorded in the audit log.
//
// Metrics, with the prefix `capstan_node_agent_`:
//   workload_connections_total{peer}  connections of a `task`, of a `stranger`, or `refused`
class WorkloadServer final : public WorkloadApi {
 public:
  struct Deps {
    // All must outlive it.
    Strand* strand = nullptr;
    // Where the audit log is written.
    Strand* files = nullptr;
    TaskIdentity* identity = nullptr;
    TaskTokens* tokens = nullptr;
    const log::Logger* logger = nullptr;
    // These may be null.
    metrics::Registry* registry = nullptr;
    audit::AuditSink* audit = nullptr;
  };

  // Serves `<folder>/api.sock`; the folder is made if need be, open to everyone, and stays the
  // same, since Tasks have it mounted. Not on the strand.
  static absl::StatusOr<std::unique_ptr<WorkloadServer>> Start(const std::string& folder,
                                                               Deps deps);
  // From now on connections are taken; before, they are closed, which clients take for an agent
  // that is being restarted. To be called once the Tasks that run are being served: else one of
  // them that comes back early would be taken for a stranger.
  void Open() { open_ = true; }
  // After Stop, on the strand or when it has stopped.
  ~WorkloadServer() override = default;
  // Ends all calls and closes the socket. Not on the strand, which must still run. Idempotent;
  // afterwards everything else does nothing that anyone sees.
  void Stop();

  void Serve(const KeepIdentity& order) override;
  void Renewed(const session::TaskId& id) override;
  void Close(const session::TaskId& id) override;

 private:
  explicit WorkloadServer(Deps deps);
  absl::StatusOr<std::string> Attest(int fd);
  absl::StatusOr<rpc::LocalServices> MakeServices(const std::string& peer);
  void Record(const std::string& principal, const std::string& act, const std::string& resource,
              const absl::Status& why);
  void Count(const char* peer);

  const Deps deps_;
  TaskPeers peers_;
  std::atomic<bool> open_ = false;
  std::shared_ptr<auth::DenialLog> denials_;
  // On the strand.
  std::unique_ptr<WorkloadIdentities> identities_;
  std::unique_ptr<rpc::LocalServer> local_;
};

}  // namespace capstan::node_agent

#endif  // CAPSTAN_SERVICES_NODE_AGENT_WORKLOAD_SERVER_H_
