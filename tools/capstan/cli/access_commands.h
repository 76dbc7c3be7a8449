// What the `access` commands do: who one is, what one may do, and who is let in.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_ACCESS_COMMANDS_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_ACCESS_COMMANDS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::cli {

// Who the platform takes the caller for, which roles they hold, until when and from where.
absl::Status WhoAmI(Invocation& invocation);

// Prints `yes` or `no`; `no` fails with ExitCode::kFailed.
absl::Status CanI(const std::string& verb, const std::string& resource, Invocation& invocation);
// Everything that the caller may do, in the project and outside of all.
absl::Status ListWhatICan(Invocation& invocation);

struct DenyOptions {
  // SPIFFE id, path or path prefix that ends in `/`; or empty.
  std::string identity;
  // Certificate serial, lower-case hex; or empty.
  std::string serial;
  std::string reason;
};
absl::Status DenyIdentity(const DenyOptions& options, Invocation& invocation);
// Takes back what was denied by exactly the same identity or serial.
absl::Status AllowIdentity(const DenyOptions& options, Invocation& invocation);
// The deny list.
absl::Status ListDenials(Invocation& invocation);

// Prints the secret, once.
absl::Status CreateJoinToken(const std::string& path, absl::Duration ttl, Invocation& invocation);

// The roots of the trust domain, for people in PEM.
absl::Status ShowTrustBundle(Invocation& invocation);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_ACCESS_COMMANDS_H_
