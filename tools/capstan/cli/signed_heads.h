#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_SIGNED_HEADS_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_SIGNED_HEADS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/capstan/credentials/v1/audit_head.pb.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::cli {

// Heads of audit chains whose signatures have been verified.
struct SignedHeads {
  // As credentials has given it.
  credentials::v1::AuditHeadFile file;
  std::vector<credentials::v1::AuditHeadStatement> heads;
};

// As credentials signs them now, verified by the caller's trust bundle.
absl::StatusOr<SignedHeads> HeadsOfPlatform(Invocation& invocation);

// As `audit heads --export` has written them to `heads`, verified by the roots (PEM) in
// `trust_bundle`, without the platform; HeadsOfPlatform where `heads` is empty.
absl::StatusOr<SignedHeads> ReadHeads(const std::string& heads, const std::string& trust_bundle,
                                      Invocation& invocation);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_SIGNED_HEADS_H_
