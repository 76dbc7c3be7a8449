#include "tools/capstan/cli/person_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "libs/rpc/x509.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "proto/capstan/credentials/v1/join_service.grpc.pb.h"
#include "tools/capstan/cli/call.h"

namespace capstan::cli {
namespace {

using credentials::v1::IssuePersonSvidRequest;
using credentials::v1::PersonService;

constexpr absl::Duration kIssueTimeOut = absl::Seconds(10);

std::string Written(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

// What the clock says against a certificate, with both its bounds; empty if it is in force. A
// service would only end the handshake, and the person would be told that it is unavailable.
std::string WhatTheClockSays(const rpc::IdentitySnapshot& certificate, absl::Time now) {
  const bool expired = certificate.not_after <= now;
  if (!expired && certificate.not_before <= now) return "";
  return absl::StrCat(expired ? "has expired" : "is not yet valid", ": it is good from ",
                      Written(certificate.not_before), " to ", Written(certificate.not_after),
                      ", and this machine's clock says ", Written(now));
}

// Why what is kept can't be shown; empty if it can.
std::string WhatIsWrong(const absl::StatusOr<std::shared_ptr<rpc::Identity>>& kept,
                        const std::string& folder, const std::string& trust_domain,
                        absl::Time now) {
  if (kept.status().code() == absl::StatusCode::kNotFound) {
    return "You have no certificate of this platform yet";
  }
  if (!kept.ok()) return absl::StrCat("Your certificate can't be read: ", kept.status().message());
  const std::string yours = absl::StrCat("Your certificate in ", folder, " ");
  if ((*kept)->trust_domain() != trust_domain) {
    return absl::StrCat(yours, "is of the trust domain ", (*kept)->trust_domain(), ", not of ",
                        trust_domain);
  }
  const std::string said = WhatTheClockSays(*(*kept)->Get(), now);
  return said.empty() ? "" : yours + said;
}

// mkdir -p with 0700 for what is made.
absl::Status MakeFolders(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, "making", part);
    }
    if (end == std::string::npos) return absl::OkStatus();
  }
}

absl::StatusOr<std::shared_ptr<const rpc::Identity>> Issue(const std::string& folder,
                                                           const std::string& socket,
                                                           const Clock* clock, Random* random) {
  CAPSTAN_ASSIGN_OR_RETURN(rpc::PrivateKey key, rpc::PrivateKey::Generate());
  CAPSTAN_ASSIGN_OR_RETURN(std::string certificate_request, rpc::MakeCertificateRequest(key));
  // The socket itself says who asks; the kernel vouches for it.
  const auto channel =
      grpc::CreateChannel(absl::StrCat("unix:", socket), grpc::InsecureChannelCredentials());
  const auto stub = PersonService::NewStub(channel);
  IssuePersonSvidRequest request;
  request.set_certificate_request(std::move(certificate_request));
  const auto issued = Call(stub.get(), &PersonService::Stub::IssuePersonSvid, request,
                           {clock, random, kIssueTimeOut});
  if (!issued.ok()) return status::Annotate(issued.status(), "asking for your identity");
  rpc::Svid svid;
  svid.key_pem = key.ToPem();
  svid.chain.assign(issued->certificate_chain().begin(), issued->certificate_chain().end());
  svid.bundle.assign(issued->bundle().roots().begin(), issued->bundle().roots().end());
  CAPSTAN_RETURN_IF_ERROR(MakeFolders(folder));
  return rpc::Identity::Store(folder, std::move(svid));
}

}  // namespace

std::string PersonFolder(const std::string& data_dir) {
  struct stat info = {};
  if (stat(data_dir.c_str(), &info) == 0 && info.st_uid == geteuid()) {
    return absl::StrCat(data_dir, "/person");
  }
  // Not the platform's owner: only the person's own home will do.
  const char* home = std::getenv("HOME");
  return absl::StrCat(home != nullptr ? home : "", "/.local/state/capstan/person");
}

bool NeedsRenewal(absl::Time not_before, absl::Time not_after, absl::Time now) {
  return not_after - now <= (not_after - not_before) / 3;
}

absl::StatusOr<std::shared_ptr<const rpc::Identity>> GetPersonIdentity(
    const std::string& folder, const std::string& socket, const std::string& trust_domain,
    const Clock* clock, Random* random) {
  const absl::StatusOr<std::shared_ptr<rpc::Identity>> kept = rpc::Identity::Load(folder);
  const absl::Time now = clock->Read().wall;
  const std::string wrong = WhatIsWrong(kept, folder, trust_domain, now);
  if (wrong.empty() && !NeedsRenewal((*kept)->Get()->not_before, (*kept)->Get()->not_after, now)) {
    return std::shared_ptr<const rpc::Identity>(*kept);
  }
  absl::StatusOr<std::shared_ptr<const rpc::Identity>> issued =
      Issue(folder, socket, clock, random);
  if (issued.ok()) {
    const std::string said = WhatTheClockSays(*(*issued)->Get(), clock->Read().wall);
    if (said.empty()) return issued;
    issued = status::Error(absl::StatusCode::kUnauthenticated, "CERTIFICATE_NOT_VALID",
                           absl::StrCat("The certificate that the platform has issued to you just "
                                        "now ",
                                        said, "; set the clock of this machine and try again"));
    if (!wrong.empty()) return issued;
  }
  if (wrong.empty()) return std::shared_ptr<const rpc::Identity>(*kept);
  return status::Annotate(
      issued.status(),
      absl::StrCat(wrong,
                   ". Each command asks the platform for a new one: see that credentials runs "
                   "(`capstan dev status`; `capstan dev up` starts it), and that the clock is "
                   "right. This time it was given none"));
}

}  // namespace capstan::cli
