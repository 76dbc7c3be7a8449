#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/audit/signed_head.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/credentials/v1/audit_head.pb.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/printer.h"
#include "tools/capstan/cli/project_commands.h"
#include "tools/capstan/cli/signed_heads.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {

using credentials::v1::AuditHeadStatement;

absl::Status VerifyAuditFile(const VerifyOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const SignedHeads from,
                           ReadHeads(options.heads, options.trust_bundle, invocation));
  const auto verified = audit::VerifyFileByHeads(options.file, from.heads);
  if (!verified.ok()) return Failed(verified.status().message());
  *invocation.out << "audit chain '" << WithoutControls(verified->head.chain()) << "' of "
                  << WithoutControls(verified->head.principal()) << ": "
                  << verified->content.head.sequence
                  << " records, whole and unchanged up to record " << verified->head.sequence()
                  << ", which was signed at "
                  << absl::FormatTime(absl::RFC3339_sec, ToTime(verified->head.sign_time()),
                                      absl::UTCTimeZone())
                  << "; " << verified->unsigned_records << " newer ones are not signed yet\n";
  return absl::OkStatus();
}

absl::Status ShowAuditHeads(const std::string& export_path, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const SignedHeads from, HeadsOfPlatform(invocation));
  if (!export_path.empty()) {
    CAPSTAN_RETURN_IF_ERROR(WriteFileAtomically(export_path, from.file.SerializeAsString(), 0644));
  }
  return PrintList<AuditHeadStatement>(
      invocation, "audit_heads", from.heads,
      {{"CHAIN", [](const AuditHeadStatement& h) { return h.chain(); }},
       {"PRINCIPAL", [](const AuditHeadStatement& h) { return h.principal(); }},
       {"RECORDS", [](const AuditHeadStatement& h) { return absl::StrCat(h.sequence()); }},
       {"SIGNED",
        [](const AuditHeadStatement& h) {
          return absl::FormatTime(absl::RFC3339_sec, ToTime(h.sign_time()), absl::UTCTimeZone());
        }},
       {"FIRST",
        [](const AuditHeadStatement& h) {
          return absl::BytesToHexString(absl::string_view(h.first_hash()).substr(0, 8));
        },
        /*wide=*/true}});
}

}  // namespace capstan::cli
