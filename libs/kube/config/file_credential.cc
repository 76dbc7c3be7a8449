#include "libs/kube/config/file_credential.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/kube/config/credential_cache.h"
#include "libs/kube/config/credential_check.h"
#include "libs/kube/config/fetching_credential.h"
#include "libs/kube/config/text_file.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::kube {
namespace {

absl::StatusOr<std::string> Read(const Material& material) {
  if (material.path.empty()) return material.text;
  CAPSTAN_ASSIGN_OR_RETURN(TextFile file, ReadTextFile(material.path, /*regular_only=*/true));
  return std::move(file.text);
}

// Where a part is, for an error.
std::string Place(const Material& material) {
  return material.path.empty() ? "the kubeconfig" : material.path;
}

}  // namespace

absl::StatusOr<Credential> ReadCredential(const GivenCredential& given) {
  Credential credential;
  if (!given.token.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string token, Read(given.token));
    credential.bearer_token = std::string(absl::StripAsciiWhitespace(token));
    CAPSTAN_RETURN_IF_ERROR(
        status::Annotate(CheckToken(credential.bearer_token), Place(given.token)));
  }
  if (!given.certificate_chain_pem.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(credential.private_key_pem, Read(given.private_key_pem));
    CAPSTAN_ASSIGN_OR_RETURN(credential.certificate_chain_pem, Read(given.certificate_chain_pem));
    CAPSTAN_RETURN_IF_ERROR(
        status::Annotate(CheckKeyPair(credential.certificate_chain_pem, credential.private_key_pem),
                         absl::StrCat(Place(given.certificate_chain_pem), " with the key in ",
                                      Place(given.private_key_pem))));
  }
  return credential;
}

std::unique_ptr<CredentialSource> MakeFileCredential(GivenCredential given, const Clock* clock) {
  CredentialCache::Options options;
  options.fresh_for = absl::Seconds(10);
  options.longest_wait = absl::Seconds(10);
  return std::make_unique<FetchingCredential>(
      "kube-files", options,
      [given = std::move(given)](int) -> absl::StatusOr<FetchedCredential> {
        CAPSTAN_ASSIGN_OR_RETURN(Credential credential, ReadCredential(given));
        FetchedCredential fetched;
        fetched.credential = std::move(credential);
        return fetched;
      },
      clock);
}

}  // namespace capstan::kube
