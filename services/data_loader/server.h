#ifndef CAPSTAN_SERVICES_DATA_LOADER_SERVER_H_
#define CAPSTAN_SERVICES_DATA_LOADER_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/security/server_credentials.h"
#include "libs/auth/access.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"
#include "services/data_loader/adapters/http_client.h"

namespace capstan::data_loader {

struct ServerConfig {
  // `host:port`; port 0 takes a free one.
  std::string address = "127.0.0.1:0";
  // How others reach it, also in the store; default `address`.
  std::string advertised;
  // Whether other processes share the store and the Site's directory: one of them acts at a time.
  bool replicated = false;
  // The Site's name and directory, and the Clusters whose Nodes reach it; empty means all.
  std::string site = "sites/shared";
  std::string site_directory;
  std::vector<std::string> clusters;
  // Folders below which `file://` sources may lie.
  std::vector<std::string> allowed_source_roots;
  // How `http://` and `https://` sources are read; by default none is.
  HttpOptions http;
  // Threads for loads and copies of outputs.
  int disk_threads = 4;
  // Threads that read content for Nodes that do not share the Site's file system.
  int content_threads = 2;
  // What Dataset versions, with what is being loaded, may take at the Site; the least recently used
  // leave when room is needed. 0 means no bound but the disk's.
  int64_t site_limit_bytes = 0;
  // Secret of the page tokens, at least 16 bytes; kept over restarts.
  std::string page_token_key;
  // How long connections may live: see rpc::ConnectionAge.
  absl::Duration max_connection_age = absl::Hours(12);
};

// What the server is given; all must outlive it.
struct ServerDeps {
  const Clock* clock = nullptr;
  // On which `store` calls back.
  Strand* strand = nullptr;
  store::Store* store = nullptr;
  auth::Access* access = nullptr;
  log::Logger* logger = nullptr;
  // May be null.
  metrics::Registry* metrics = nullptr;
  std::shared_ptr<grpc::ServerCredentials> credentials;
  // Of ids.
  uint64_t seed = 0;
  // Of replicas: told once, on the strand, if this one has lost the Site and must end.
  std::function<void(const absl::Status& why)> on_lost;
};

// The whole data_loader in one process.
class Server {
 public:
  // Reads the store, takes up what was under way, and serves. Blocks for the store; not to be
  // called on the strand.
  static absl::StatusOr<std::unique_ptr<Server>> Create(const ServerConfig& config,
                                                        const ServerDeps& deps);
  ~Server();

  int port() const;
  // For tests with a FakeAccess.
  std::shared_ptr<grpc::Channel> InProcessChannelForTest();
  // Stops loads, which the next start or another replica takes up, and lets open calls end until
  // `grace` is over.
  // The destructor does it with no grace. Not to be called on the strand.
  void Drain(absl::Duration grace);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_SERVER_H_
