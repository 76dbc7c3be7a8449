#ifndef CAPSTAN_LIBS_RPC_SERVER_H_
#define CAPSTAN_LIBS_RPC_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "libs/rpc/identity.h"

namespace capstan::rpc {

// A service implementation with its full name, by which its access rules are found.
struct RegisteredService {
  grpc::Service* service = nullptr;
  // `package.Service`.
  std::string full_name;
};

// Registered<JobService>(&impl), with JobService the generated class.
template <typename Generated>
RegisteredService Registered(grpc::Service* service) {
  return {service, Generated::service_full_name()};
}

// The name under which the health service of a replica says whether it leads; what DialLeader asks.
inline constexpr char kLeaderHealth[] = "capstan.leader";

struct ServerConfig {
  // `host:port`; port 0 takes a free one, `unix:/path` a socket.
  std::string address = "127.0.0.1:0";
  // Null: no port, only in-process channels and AddConnection.
  std::shared_ptr<grpc::ServerCredentials> credentials;
  // They must outlive the server.
  std::vector<RegisteredService> services;
  // Calls at a time on one connection; more wait at the client.
  int max_concurrent_streams = 1000;
  // Connections are ended, gracefully, after this time: see ConnectionAge().
  absl::Duration max_connection_age = absl::Hours(12);
  // What calls and streams get to end after that, or after GOAWAY.
  absl::Duration max_connection_age_grace = absl::Seconds(30);
};

// How long connections may live under an identity: half an SVID's life, or until it expires if that
// is sooner; at least five seconds, so that SVIDs of 30 s work too. Certificates are looked at only
// in handshakes.
absl::Duration ConnectionAge(const IdentitySnapshot& identity, absl::Time now);

// A running gRPC server with health and reflection, bounded messages and keepalive.
class Server {
 public:
  // Binds and starts to serve. FAILED_PRECONDITION if a method of a registered service has no
  // AccessRule; UNAVAILABLE if the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerConfig& config);
  // Shuts down at once if Shutdown was not called.
  ~Server();

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const { return port_; }
  // Serves a connected socket in plaintext and takes it over. Whoever hands it in has made sure of
  // the other side; its calls are anonymous.
  void AddConnection(int fd);
  // The health service's answer for `name`, which need not be a service of gRPC's: see
  // kLeaderHealth.
  void SetServing(const std::string& name, bool serving);

  // Reports not serving, takes no new calls, waits for open ones up to `grace` and cancels what is
  // left then; returns when no handler runs any more. Idempotent. Streams end only when their
  // owners finish them or `grace` is over: finish them first.
  void Shutdown(absl::Duration grace);

  // A channel without network and without identity, for tests with a FakeAccess.
  std::shared_ptr<grpc::Channel> InProcessChannel();

 private:
  Server() = default;

  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_SERVER_H_
