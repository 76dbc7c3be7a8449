#include "tools/capstan/cli/signed_heads.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/audit/signed_head.h"
#include "libs/rpc/x509.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/credentials/v1/audit_head.grpc.pb.h"
#include "tools/capstan/cli/call.h"
#include "tools/capstan/cli/exit_code.h"
#include "tools/capstan/cli/platform.h"

namespace capstan::cli {
namespace {

using credentials::v1::AuditHeadFile;
using credentials::v1::AuditHeadService;
using credentials::v1::ExportAuditHeadsRequest;

constexpr size_t kMaxFile = 16 << 20;

absl::StatusOr<std::string> Read(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "reading", path);
  return ReadAll(fd.get(), kMaxFile, path);
}

absl::StatusOr<SignedHeads> Verified(AuditHeadFile file, const std::vector<std::string>& roots) {
  auto heads = audit::VerifyHeadFile(file, roots);
  if (!heads.ok()) return Failed(heads.status().message());
  return SignedHeads{std::move(file), *std::move(heads)};
}

}  // namespace

absl::StatusOr<SignedHeads> HeadsOfPlatform(Invocation& invocation) {
  CAPSTAN_ASSIGN_OR_RETURN(const auto platform, Platform::Open(invocation));
  CAPSTAN_ASSIGN_OR_RETURN(const auto channel, platform->Channel("credentials"));
  const auto stub = AuditHeadService::NewStub(channel);
  CAPSTAN_ASSIGN_OR_RETURN(AuditHeadFile file,
                           Call(stub.get(), &AuditHeadService::Stub::ExportAuditHeads,
                                ExportAuditHeadsRequest(), Terms(invocation)));
  CAPSTAN_ASSIGN_OR_RETURN(const auto identity, platform->Identity());
  return Verified(std::move(file), identity->Get()->svid.bundle);
}

absl::StatusOr<SignedHeads> ReadHeads(const std::string& heads, const std::string& trust_bundle,
                                      Invocation& invocation) {
  if (heads.empty()) return HeadsOfPlatform(invocation);
  if (trust_bundle.empty()) {
    return status::Error(absl::StatusCode::kInvalidArgument, "NO_TRUST_BUNDLE",
                         "expected --trust-bundle with --heads: the PEM that `capstan access "
                         "trust-bundle` wrote");
  }
  CAPSTAN_ASSIGN_OR_RETURN(const std::string bytes, Read(heads));
  AuditHeadFile file;
  if (!file.ParseFromString(bytes)) {
    return status::Error(absl::StatusCode::kInvalidArgument, "NO_AUDIT_HEADS",
                         absl::StrCat(heads, " is no file of `capstan audit heads --export`"));
  }
  CAPSTAN_ASSIGN_OR_RETURN(const std::string pem, Read(trust_bundle));
  CAPSTAN_ASSIGN_OR_RETURN(const auto roots, rpc::CertificatesFromPem(pem));
  return Verified(std::move(file), roots);
}

}  // namespace capstan::cli
