#ifndef CAPSTAN_SERVICES_SCHEDULER_SERVER_H_
#define CAPSTAN_SERVICES_SCHEDULER_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "grpcpp/channel.h"
#include "grpcpp/security/server_credentials.h"
#include "libs/audit/audit_sink.h"
#include "libs/auth/access.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/rpc/identity.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "libs/time/cpu_clock.h"
#include "libs/trace/span.h"
#include "services/scheduler/core/core_config.h"
#include "services/scheduler/core/demand.h"
#include "services/scheduler/recorder/flight_recorder.h"

namespace capstan::scheduler {

struct ServerConfig {
  // `host:port`; port 0 takes a free one.
  std::string address = "127.0.0.1:0";
  // How others reach it: what a follower names as the leader. Empty: `address`.
  std::string advertised;
  CoreConfig core;
  DemandConfig demand;
  // True for a store that one process owns (SQLite): leadership is taken at once.
  bool sole_owner = false;
  absl::Duration leadership_ttl = absl::Seconds(3);
  absl::Duration leadership_margin = absl::Milliseconds(400);
  // Events waiting in the outbox from which on new Jobs are shed.
  int64_t max_waiting_events = 100'000;
  // Age after which a connection is ended; see rpc::ConnectionAge.
  absl::Duration max_connection_age = absl::Hours(12);
  // What leaders take and decide is recorded; absent: it is not.
  absl::optional<FlightRecorder::Options> recorder;
  // What batches of simulations take of one core at most, 1 to 100.
  int batch_max_core_percent = 25;
  // Secret of page and resume tokens, at least 16 bytes; kept over restarts.
  std::string page_token_key;
};

// What the server is given; all must outlive it.
struct ServerDeps {
  // On which `store` calls back; a thread's.
  Strand* strand = nullptr;
  store::Store* store = nullptr;
  auth::Access* access = nullptr;
  audit::AuditSink* audit = nullptr;
  const log::Logger* logger = nullptr;
  metrics::Registry* metrics = nullptr;
  // Where spans of Jobs go; may be null.
  trace::Sink* spans = nullptr;
  std::shared_ptr<grpc::ServerCredentials> credentials;
  // With which orders of Tasks are signed; may be null, for tests without certificates.
  std::shared_ptr<const rpc::Identity> identity;
  std::shared_ptr<grpc::Channel> data_loader;
  // May be null: then events stay in the outbox.
  std::shared_ptr<grpc::Channel> telemetry;
  // Of ids and jitter.
  uint64_t seed = 0;
  const CpuClock* cpu = nullptr;
};

// The whole scheduler in one process. Serves at once: reads from what the store has committed, on
// followers too, which alone answer batches of simulations unless a request says otherwise; other
// calls get UNAVAILABLE with the leader's address until it leads itself, which
// its health service says under rpc::kLeaderHealth.
class Server {
 public:
  static absl::StatusOr<std::unique_ptr<Server>> Create(const ServerConfig& config,
                                                        const ServerDeps& deps);
  // Drains without grace if Drain was not called. Not to be called on the strand.
  ~Server();

  int port() const;
  // For tests with a FakeAccess.
  std::shared_ptr<grpc::Channel> InProcessChannelForTest();

  // OK once it can answer reads and leads, or knows who does. Not to be called on the strand.
  absl::Status Ready() const;

  // Stops answering renewals, gives up leadership, ends streams, and lets open calls end until
  // `grace` is over. Running Tasks go on. Idempotent. Not to be called on the strand.
  void Drain(absl::Duration grace);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace capstan::scheduler

#endif  // CAPSTAN_SERVICES_SCHEDULER_SERVER_H_
