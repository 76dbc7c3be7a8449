#ifndef CAPSTAN_SERVICES_EXECUTOR_SERVER_H_
#define CAPSTAN_SERVICES_EXECUTOR_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/security/server_credentials.h"
#include "libs/auth/access.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "libs/trace/span.h"

namespace capstan::executor {

struct ServerConfig {
  // Where agents dial: `host:port`; port 0 takes a free one.
  std::string address = "127.0.0.1:0";
  // Id of the Cluster.
  std::string cluster;
  absl::Duration suspect_after = absl::Seconds(15);
  // Range of the Jobs' Unix uids, both ends included; 0 where Tasks are isolated by user namespaces
  // (the platform does not run as root).
  int64_t first_uid = 0;
  int64_t last_uid = 0;
  // How long connections may live: see rpc::ConnectionAge.
  absl::Duration max_connection_age = absl::Hours(12);
};

// What the server is given; all must outlive it.
struct ServerDeps {
  // On which `store` calls back.
  Strand* strand = nullptr;
  // The executor's own.
  store::Store* store = nullptr;
  auth::Access* access = nullptr;
  const log::Logger* logger = nullptr;
  // May be null.
  metrics::Registry* registry = nullptr;
  // Where spans of Tasks go; may be null.
  trace::Sink* spans = nullptr;
  // To the scheduler.
  std::shared_ptr<grpc::Channel> scheduler;
  std::shared_ptr<grpc::ServerCredentials> credentials;
  // Of back-off.
  uint64_t seed = 0;
};

// The whole executor in one process.
class Server {
 public:
  // Reads the store, dials the scheduler (without waiting for it), and serves agents. Blocks for
  // the store; not to be called on the strand.
  static absl::StatusOr<std::unique_ptr<Server>> Create(const ServerConfig& config,
                                                        const ServerDeps& deps);
  // As Drain without grace. Not to be called on the strand.
  ~Server();

  int port() const;
  std::shared_ptr<grpc::Channel> InProcessChannelForTest();
  // OK once the scheduler's snapshot has come; for /readyz. Blocks for the strand.
  absl::Status Ready() const;
  // Ends the sessions: Tasks run on, agents dial again. Idempotent. Not to be called on the strand.
  void Drain(absl::Duration grace);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace capstan::executor

#endif  // CAPSTAN_SERVICES_EXECUTOR_SERVER_H_
