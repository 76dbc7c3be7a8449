// How a process gets its first identity.
#ifndef CAPSTAN_LIBS_AUTH_JOIN_H_
#define CAPSTAN_LIBS_AUTH_JOIN_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/auth/join_token.h"
#include "libs/rpc/identity.h"
#include "libs/time/clock.h"

namespace capstan::auth {

// Exchanges the token for an identity at the joining port `address` and stores it in `folder`.
// Blocks up to `deadline`; repeats the call, with the same key, while the server cannot be reached,
// so that a lost answer costs nothing. The server is verified by the token's hash before the token
// is sent.
absl::StatusOr<std::shared_ptr<rpc::Identity>> Join(const JoinToken& token,
                                                    const std::string& address,
                                                    const std::string& folder, const Clock* clock,
                                                    absl::Duration deadline);

// What a process does at its start: the identity kept in `folder` if there is one that has not
// expired, else, with a token descriptor (>= 0), Join. Without both UNAUTHENTICATED with reason
// NO_IDENTITY: a part ends with it, so that its supervisor hands over a token at the next start.
// The descriptor is closed in any case.
struct ObtainOptions {
  std::string folder;
  // Of the joining port.
  std::string join_address;
  int token_fd = -1;
  absl::Duration deadline = absl::Seconds(30);
};
absl::StatusOr<std::shared_ptr<rpc::Identity>> ObtainIdentity(const ObtainOptions& options,
                                                              const Clock* clock);

}  // namespace capstan::auth

#endif  // CAPSTAN_LIBS_AUTH_JOIN_H_
