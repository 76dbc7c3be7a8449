#ifndef CAPSTAN_TOOLS_CAPSTAN_SERVE_PART_CONTEXT_H_
#define CAPSTAN_TOOLS_CAPSTAN_SERVE_PART_CONTEXT_H_

#include <cstdint>
#include <functional>
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
#include "libs/metrics/registry.h"
#include "libs/rpc/identity.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"
#include "proto/capstan/cli/v1/endpoints.pb.h"
#include "proto/capstan/cli/v1/platform_config.pb.h"

namespace capstan::serve {

// How a part is started.
struct ServeOptions {
  std::string data_dir;
  // A pipe with a join token; -1 if there is none.
  int join_token_fd = -1;
  // credentials only; see services/credentials/README.md.
  int supervisor_fd = -1;
  int64_t admin_uid = -1;
  std::vector<std::string> supervised_paths;
};

// What every part of a platform is made of, apart from its own server: settings, log, metrics,
// identity (joined if need be, renewed in time), policy, audit chain, store. Destroyed in reverse,
// after the server that was given pieces of it.
class PartContext {
 public:
  // `part` as in `capstan serve`. Must be called before any thread is made. `with_identity` is
  // false for credentials, which makes its own and watches no policy but its own.
  static absl::StatusOr<std::unique_ptr<PartContext>> Open(const ServeOptions& options,
                                                           absl::string_view part,
                                                           const Clock* clock, bool with_identity);
  ~PartContext();

  const cli::v1::PlatformConfig& config() const;
  // Folder of the part.
  const std::string& folder() const;
  const cli::v1::Endpoints& endpoints() const;
  // Where this part listens.
  const std::string& address() const;

  const Clock* clock() const;
  log::Logger* logger();
  metrics::Registry* registry();
  // On which the store calls back; the engine's.
  Strand* strand();
  store::Store* store();
  auth::Access* access();
  // The part's own chain.
  audit::AuditSink* audit();
  std::shared_ptr<rpc::Identity> identity();
  // mTLS credentials of a server with the identity.
  std::shared_ptr<grpc::ServerCredentials> server_credentials();
  absl::Duration max_connection_age() const;
  // A channel to another part.
  std::shared_ptr<grpc::Channel> ChannelTo(absl::string_view part);
  // A secret of 32 bytes that is kept in the part's folder.
  absl::StatusOr<std::string> KeptSecret(absl::string_view name);
  // For back-off and ids; not for secrets.
  uint64_t NewSeed();

  // Serves /metrics, /healthz and /readyz; `ready` is asked on a thread of its own, after the
  // policy (if the part watches one) is in force.
  absl::Status ServeMetrics(std::function<absl::Status()> ready);
  // Logs that it serves, and blocks until a signal; its number. UNAUTHENTICATED with reason
  // NO_IDENTITY if the SVID expired instead: drain, then end with it. In both cases /readyz is gone
  // afterwards, so that `ready` is not called any more.
  absl::StatusOr<int> WaitForSignal();

 private:
  struct Parts;
  explicit PartContext(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

// Time that open calls get when a part stops.
inline constexpr absl::Duration kDrain = absl::Seconds(5);

}  // namespace capstan::serve

#endif  // CAPSTAN_TOOLS_CAPSTAN_SERVE_PART_CONTEXT_H_
