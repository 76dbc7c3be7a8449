#ifndef CAPSTAN_LIBS_PROCESS_PROCESS_H_
#define CAPSTAN_LIBS_PROCESS_PROCESS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/security/server_credentials.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/access.h"
#include "libs/log/log.h"
#include "libs/metrics/endpoint_server.h"
#include "libs/metrics/registry.h"
#include "libs/rpc/identity.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"
#include "libs/trace/span.h"
#include "proto/capstan/config/v1/process.pb.h"

namespace capstan::process {

// What a kind of process is, whatever its configuration.
struct Kind {
  // `scheduler`: prefix of its metrics, name in its log, segment of its keys.
  std::string name;
  // False for credentials, which makes its own identity and watches no policy but its own.
  bool joins = true;
  // False for Nodes, which have no people to decide about.
  bool watches_policy = true;
  // False for telemetry, whose Streams are files of their own.
  bool has_store = true;
};

// How a process is started, beside its configuration.
struct StartOptions {
  // A pipe with a join token; -1 if there is none.
  int join_token_fd = -1;
  // credentials only; see services/credentials/README.md.
  int supervisor_fd = -1;
  std::vector<std::string> supervised_paths = {};
  // Reads the configuration again, on SIGHUP; may be null. What has changed and cannot be taken up
  // is named in the log.
  std::function<absl::StatusOr<config::v1::Process>()> reload = nullptr;
};

// What every process of a platform is made of, apart from its own server: log, metrics, identity
// (joined if need be, renewed in time), policy, audit chain, store. Destroyed in reverse, after the
// server that was given pieces of it.
class Process {
 public:
  // Must be called before any thread is made. `config` has passed CheckProcess. Blocks for the
  // identity and the store.
  static absl::StatusOr<std::unique_ptr<Process>> Open(const config::v1::Process& config,
                                                       const Kind& kind,
                                                       const StartOptions& options,
                                                       const Clock* clock);
  ~Process();

  const config::v1::Process& config() const;
  // How others reach this process.
  const std::string& advertised() const;

  const Clock* clock() const;
  log::Logger* logger();
  metrics::Registry* registry();
  // Where spans of what the process does go; never null.
  trace::Sink* spans();
  // On which the store calls back; the engine's.
  Strand* strand();
  store::Store* store();
  // Whether the store belongs to this process alone.
  bool owns_store() const;
  auth::Access* access();
  // The process' own chain.
  audit::AuditSink* audit();
  std::shared_ptr<rpc::Identity> identity();
  // mTLS credentials of a server with the identity.
  std::shared_ptr<grpc::ServerCredentials> server_credentials();
  absl::Duration max_connection_age() const;
  // A channel to a service, whose SVID must have the path `identity_path` (`/svc/telemetry`).
  std::shared_ptr<grpc::Channel> ChannelTo(const config::v1::Peer& peer,
                                           absl::string_view identity_path);
  // The same to the one of its replicas that leads.
  std::shared_ptr<grpc::Channel> ChannelToLeader(const config::v1::Peer& peer,
                                                 absl::string_view identity_path);
  // A secret of 32 bytes that all replicas share: kept in the store under `name`, made by whoever
  // comes first. Blocks for the store; not to be called on the strand.
  absl::StatusOr<std::string> SharedSecret(absl::string_view name);
  // For back-off and ids; not for secrets.
  uint64_t NewSeed();

  // Of credentials, which makes its own identity: hands it in. Before ServeMetrics.
  void AdoptIdentity(std::shared_ptr<rpc::Identity> identity);
  // Serves /metrics, /healthz, /readyz and `pages` (see metrics::EndpointServer), and reports where
  // to telemetry. `ready` is asked on a thread of its own, after the policy (if one is watched) is
  // in force.
  absl::Status ServeMetrics(
      std::function<absl::Status()> ready,
      std::map<std::string, std::function<metrics::Page(const std::string& client)>> pages = {});
  // Logs that it serves, and blocks until a signal to end; its number. UNAUTHENTICATED with reason
  // NO_IDENTITY if the SVID expired instead, or the error given to End: drain, then end with it. In
  // all cases the pages are gone afterwards, so that `ready` is not called any more.
  absl::StatusOr<int> WaitForSignal();
  // Makes WaitForSignal return `why`, an error: the process can't go on and is to be started anew.
  // From any thread.
  void End(absl::Status why);

 private:
  struct Parts;
  explicit Process(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

// Time that open calls get when a process stops.
inline constexpr absl::Duration kDrain = absl::Seconds(5);

}  // namespace capstan::process

#endif  // CAPSTAN_LIBS_PROCESS_PROCESS_H_
