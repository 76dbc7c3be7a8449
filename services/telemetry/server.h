#ifndef CAPSTAN_SERVICES_TELEMETRY_SERVER_H_
#define CAPSTAN_SERVICES_TELEMETRY_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/security/server_credentials.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/access.h"
#include "libs/log/log.h"
#include "libs/metrics/client_addresses.h"
#include "libs/metrics/endpoint_server.h"
#include "libs/metrics/registry.h"
#include "libs/strand/strand.h"

namespace capstan::telemetry {

struct ServerConfig {
  // `host:port`; port 0 takes a free one.
  std::string address = "127.0.0.1:0";
  // Where the Streams lie; made if need be, owned by this process.
  std::string folder;
  // Of one Stream. The audit stream is kept whole.
  int64_t keep_bytes = int64_t{1} << 30;
  absl::Duration keep_for = absl::Hours(24 * 7);
  // The archive of ended Jobs; empty: there is none, and its RPCs are unimplemented.
  std::string archive_file;
  absl::Duration archive_keep_for = absl::Hours(24 * 365);
  int64_t archive_max_jobs = 1'000'000;
  // Where subscriptions and their cursors are kept. Empty, or without an audit trail: there are
  // none, and their RPCs are unimplemented.
  std::string subscriptions_file;
  // File with what there is to scrape.
  std::string targets_file;
  absl::Duration forget_targets_after = absl::Hours(1);
  // See TargetInventory.
  std::string loopback_network;
  // Who may read the list of scrape targets.
  metrics::ClientAddresses target_readers;
  // How long connections may live: see rpc::ConnectionAge.
  absl::Duration max_connection_age = absl::Hours(12);
};

// What the server is given; all must outlive it.
struct ServerDeps {
  // Its own: nothing else need run on it.
  Strand* strand = nullptr;
  auth::Access* access = nullptr;
  const log::Logger* logger = nullptr;
  metrics::Registry* metrics = nullptr;
  std::shared_ptr<grpc::ServerCredentials> credentials;
  // Where task sessions and acts on subscriptions are recorded; without it there are none.
  audit::AuditSink* audit = nullptr;
  // Of the ids of task sessions, which are no secrets.
  uint64_t seed = 0;
};

// The whole telemetry service in one process.
class Server {
 public:
  // Takes the folder and serves. Not to be called on the strand.
  static absl::StatusOr<std::unique_ptr<Server>> Create(const ServerConfig& config,
                                                        const ServerDeps& deps);
  // As Drain without grace. Not to be called on the strand, which must still run.
  ~Server();

  int port() const;
  std::shared_ptr<grpc::Channel> InProcessChannelForTest();
  // The page for Prometheus' HTTP service discovery, to be served as `/targets`; usable as long as
  // the server lives.
  std::function<metrics::Page(const std::string& client)> TargetsPage() const;
  // Ends readers, lets open appends end until `grace` is over. Idempotent.
  void Drain(absl::Duration grace);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace capstan::telemetry

#endif  // CAPSTAN_SERVICES_TELEMETRY_SERVER_H_
