#ifndef CAPSTAN_SERVICES_CLUSTER_MANAGER_SERVER_H_
#define CAPSTAN_SERVICES_CLUSTER_MANAGER_SERVER_H_

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

namespace capstan::cluster_manager {

struct ServerConfig {
  // `host:port`; port 0 takes a free one.
  std::string address = "127.0.0.1:0";
  // This service's own SPIFFE id: the owner of its cordons.
  std::string owner;
  // This process among the replicas; default `address`.
  std::string advertised;
  // True for a store that one process owns (SQLite).
  bool sole_owner = false;
  absl::Duration raise_after = absl::Seconds(30);
  absl::Duration clear_after = absl::Seconds(60);
  // Secret of the page tokens, at least 16 bytes; kept over restarts.
  std::string page_token_key;
  // How long connections may live: see rpc::ConnectionAge.
  absl::Duration max_connection_age = absl::Hours(12);
};

// What the server is given; all must outlive it.
struct ServerDeps {
  // On which `store` calls back.
  Strand* strand = nullptr;
  store::Store* store = nullptr;
  auth::Access* access = nullptr;
  log::Logger* logger = nullptr;
  metrics::Registry* metrics = nullptr;
  std::shared_ptr<grpc::Channel> scheduler;
  std::shared_ptr<grpc::ServerCredentials> credentials;
  // Of ids and back-off.
  uint64_t seed = 0;
};

// The whole cluster manager in one process. Of several over one store each judges the Clusters that
// are its share, and each answers for all.
class Server {
 public:
  // Serves, and begins to take part. Not to be called on the strand.
  static absl::StatusOr<std::unique_ptr<Server>> Create(const ServerConfig& config,
                                                        const ServerDeps& deps);
  // As Drain without grace. Not to be called on the strand.
  ~Server();

  int port() const;
  std::shared_ptr<grpc::Channel> InProcessChannelForTest();
  // Gives its share to the others, then lets open calls end until `grace` is over. Not to be called
  // on the strand.
  void Drain(absl::Duration grace);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace capstan::cluster_manager

#endif  // CAPSTAN_SERVICES_CLUSTER_MANAGER_SERVER_H_
