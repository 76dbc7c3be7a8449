#include "tools/capstan/cli/person_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
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
  const absl::Time now = clock->Read().wall;
  absl::StatusOr<std::shared_ptr<rpc::Identity>> kept = rpc::Identity::Load(folder);
  const bool usable =
      kept.ok() && (*kept)->trust_domain() == trust_domain && (*kept)->Get()->not_after > now;
  if (usable && !NeedsRenewal((*kept)->Get()->not_before, (*kept)->Get()->not_after, now)) {
    return std::shared_ptr<const rpc::Identity>(*std::move(kept));
  }
  auto issued = Issue(folder, socket, clock, random);
  if (issued.ok() || !usable) return issued;
  return std::shared_ptr<const rpc::Identity>(*std::move(kept));
}

}  // namespace capstan::cli
