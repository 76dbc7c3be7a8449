#include <fcntl.h>

#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/audit/signed_head.h"
#include "libs/rpc/x509.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "libs/time/proto_time.h"
#include "proto/capstan/credentials/v1/audit_head.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/platform.h"
#include "tools/capstan/cli/printer.h"
#include "tools/capstan/cli/project_commands.h"
#include "tools/capstan/cli/terminal.h"

namespace capstan::cli {
namespace {

using credentials::v1::AuditHeadFile;
using credentials::v1::AuditHeadService;
using credentials::v1::AuditHeadStatement;
using credentials::v1::ExportAuditHeadsRequest;

constexpr size_t kMaxFile = 16 << 20;

absl::StatusOr<std::string> Read(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "reading", path);
  return ReadAll(fd.get(), kMaxFile, path);
}

// As credentials has signed them now, with what verifies them.
struct Signed {
  AuditHeadFile file;
  std::vector<std::string> roots;
};

absl::StatusOr<Signed> FromPlatform(Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform->Channel("credentials"));
  const auto stub = AuditHeadService::NewStub(channel);
  Signed result;
  CAPSTAN_ASSIGN_OR_RETURN(result.file, Call(stub.get(), &AuditHeadService::Stub::ExportAuditHeads,
                                             ExportAuditHeadsRequest(), Terms(invocation)));
  CAPSTAN_ASSIGN_OR_RETURN(const auto identity, platform->Identity());
  result.roots = identity->Get()->svid.bundle;
  return result;
}

absl::StatusOr<Signed> FromFiles(const VerifyFileOptions& options) {
  if (options.trust_bundle.empty()) {
    return status::Error(absl::StatusCode::kInvalidArgument, "NO_TRUST_BUNDLE",
                         "expected --trust-bundle with --heads: the PEM that `capstan access "
                         "trust-bundle` wrote");
  }
  Signed result;
  CAPSTAN_ASSIGN_OR_RETURN(const std::string bytes, Read(options.heads));
  if (!result.file.ParseFromString(bytes)) {
    return status::Error(
        absl::StatusCode::kInvalidArgument, "NO_AUDIT_HEADS",
        absl::StrCat(options.heads, " is no file of `capstan audit heads --export`"));
  }
  CAPSTAN_ASSIGN_OR_RETURN(const std::string pem, Read(options.trust_bundle));
  CAPSTAN_ASSIGN_OR_RETURN(result.roots, rpc::CertificatesFromPem(pem));
  return result;
}

}  // namespace

absl::Status VerifyAuditFile(const VerifyFileOptions& options, Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const Signed from,
                           options.heads.empty() ? FromPlatform(invocation) : FromFiles(options));
  const auto heads = audit::VerifyHeadFile(from.file, from.roots);
  if (!heads.ok()) return Failed(heads.status().message());
  const auto verified = audit::VerifyFileByHeads(options.file, *heads);
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
  CAPSTAN_ASSIGN_OR_RETURN(const Signed from, FromPlatform(invocation));
  const auto heads = audit::VerifyHeadFile(from.file, from.roots);
  if (!heads.ok()) return Failed(heads.status().message());
  if (!export_path.empty()) {
    CAPSTAN_RETURN_IF_ERROR(WriteFileAtomically(export_path, from.file.SerializeAsString(), 0644));
  }
  return PrintList<AuditHeadStatement>(
      invocation, "audit_heads", *heads,
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
