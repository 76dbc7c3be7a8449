#ifndef CAPSTAN_SERVICES_CREDENTIALS_SERVER_H_
#define CAPSTAN_SERVICES_CREDENTIALS_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "libs/log/log.h"
#include "libs/metrics/registry.h"
#include "libs/rpc/identity.h"
#include "libs/store/store.h"
#include "libs/strand/strand.h"
#include "libs/time/clock.h"
#include "services/credentials/core/credentials_core.h"

namespace capstan::credentials {

// See README.md, Flags.
struct Config {
  // Must exist; 0700. Holds `identity/` and, unless `key_file` is set, `key_keeper.key`.
  std::string data_folder;
  // The key that seals the stored private keys (32 bytes, 0600): the same for all replicas. Made at
  // the first run if it is not there. Empty: `key_keeper.key` in the data folder.
  std::string key_file;
  std::string listen = "127.0.0.1:0";
  std::string join_listen = "127.0.0.1:0";
  // Empty: no people's socket.
  std::string person_socket;
  // First run only. Empty: `capstan-<8 hex digits>.local`.
  std::string trust_domain;
  absl::optional<int64_t> admin_uid;
  // Owned by the server from Start on; below 0: no supervisor.
  int supervisor_fd = -1;
  std::vector<std::string> supervised_paths;
  // `https://…` without query, fragment or `/` at its end: claim `iss` of JWT-SVIDs, and what
  // verifiers look for the keys below. Empty: tokens have no issuer.
  std::string issuer;
  // `address:port` of the HTTPS port that serves the issuer's discovery document and keys to
  // anyone. Empty: none; else `issuer` is needed.
  std::string openid_listen;
  CoreConfig core;
};

struct Deps {
  // All must outlive the server.
  const Clock* clock = nullptr;
  // The one on which the store calls back.
  Strand* strand = nullptr;
  // Another one, on which files may be written.
  Strand* io_strand = nullptr;
  store::Store* store = nullptr;
  const log::Logger* log = nullptr;
  metrics::Registry* metrics = nullptr;
};

// The credentials service in one object. Its owner calls from one thread, which is no strand's.
class Server {
 public:
  // Checks the configuration; touches nothing. INVALID_ARGUMENT with the field and what is
  // expected.
  static absl::StatusOr<std::unique_ptr<Server>> Create(Config config, Deps deps);
  // Drains without grace if Drain was not called.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Makes the trust domain at the first run, else loads it; returns once all ports serve. After an
  // error only destroy it.
  absl::Status Start();

  // Ends the streams, lets calls end until `deadline`, records what was counted. Idempotent.
  void Drain(BootTime deadline);

  // After Start.
  int port() const;
  int join_port() const;
  // 0 without one.
  int openid_port() const;
  const std::string& trust_domain() const;
  // The service's own.
  std::shared_ptr<rpc::Identity> identity() const;
  // Lower-case hex, as in join tokens.
  const std::string& bundle_sha256() const;
  // OK while this process serves and its store answers.
  absl::Status Ready() const;

 private:
  class Body;
  explicit Server(std::unique_ptr<Body> body);
  const std::unique_ptr<Body> body_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_SERVER_H_
