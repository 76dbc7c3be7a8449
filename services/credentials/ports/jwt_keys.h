#ifndef CAPSTAN_SERVICES_CREDENTIALS_PORTS_JWT_KEYS_H_
#define CAPSTAN_SERVICES_CREDENTIALS_PORTS_JWT_KEYS_H_

#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/capstan/credentials/v1/record.pb.h"
#include "services/credentials/core/event.h"

namespace capstan::credentials {

// Makes, keeps and uses the private keys that sign JWT-SVIDs. Called on the engine's strand, on
// which callbacks run, too; nothing blocks for longer than a signature takes.
class JwtKeys {
 public:
  virtual ~JwtKeys() = default;

  // Makes a key: `key_id`, `algorithm`, `public_jwk`, and `private_jwk` sealed. From then on it can
  // sign. It counts for nothing until it is stored.
  virtual void Make(const std::string& algorithm,
                    absl::AnyInvocable<void(absl::StatusOr<v1::JwtKeyRecord>)> done) = 0;
  // Opens stored keys, so that they can sign; those that are open stay so, all others are
  // forgotten. The status is of the first that could not be opened; the rest are, all the same.
  virtual void Open(const std::vector<v1::JwtKeyRecord>& records,
                    absl::AnyInvocable<void(absl::Status)> done) = 0;
  // The token that the order describes. It decides nothing. UNAVAILABLE, reason KEY_NOT_OPEN, while
  // the key is not open.
  virtual absl::StatusOr<std::string> Sign(const JwtOrder& order) = 0;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_PORTS_JWT_KEYS_H_
