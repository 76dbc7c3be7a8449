// What the commands on Projects, roles, identity and audit do.
#ifndef CAPSTAN_TOOLS_CAPSTAN_CLI_PROJECT_COMMANDS_H_
#define CAPSTAN_TOOLS_CAPSTAN_CLI_PROJECT_COMMANDS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "tools/capstan/cli/invocation.h"

namespace capstan::cli {

absl::Status CreateProject(const std::string& id, const std::string& display_name,
                           Invocation& invocation);
absl::Status ListProjects(Invocation& invocation);
absl::Status GetProject(const std::string& name, Invocation& invocation);

struct BindRoleOptions {
  // `uid`, `person/<uid>`, or a user's name on this machine.
  std::string member;
  // `admin`, `operator`, `researcher` or `viewer`.
  std::string role;
  // In the whole trust domain instead of the Project.
  bool everywhere = false;
  // Id of the binding; made of member and role if empty.
  std::string id;
};
absl::Status BindRole(const BindRoleOptions& options, Invocation& invocation);
absl::Status UnbindRole(const std::string& name, bool everywhere, Invocation& invocation);
absl::Status ListRoles(bool everywhere, Invocation& invocation);
absl::Status GetRole(const std::string& name, bool everywhere, Invocation& invocation);

struct ListAuditOptions {
  // First record, from 1; 0 means the newest ones.
  int64_t from = 0;
  // At most this many.
  int64_t limit = 100;
};
absl::Status ListAudit(const ListAuditOptions& options, Invocation& invocation);
absl::Status ShowAuditHead(Invocation& invocation);

struct VerifyOptions {
  // A part's `audit.chain`; empty: credentials' own chain, asked of it.
  std::string file;
  // What ExportAuditHeads has written; empty: asked of credentials.
  std::string heads;
  // PEM, with `heads`.
  std::string trust_bundle;
  // Show credentials' records too.
  bool print_records = false;
};
// Checks the whole hash chain of credentials against its head and the signed ones; fails if it is
// broken, cut or replaced.
absl::Status VerifyAudit(const VerifyOptions& options, Invocation& invocation);
// Verifies a part's whole audit file against the heads that credentials has signed.
absl::Status VerifyAuditFile(const VerifyOptions& options, Invocation& invocation);
// The signed heads, verified; with a path they are also written there, for VerifyAuditFile
// elsewhere.
absl::Status ShowAuditHeads(const std::string& export_path, Invocation& invocation);

}  // namespace capstan::cli

#endif  // CAPSTAN_TOOLS_CAPSTAN_CLI_PROJECT_COMMANDS_H_
