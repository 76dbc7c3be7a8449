#include "libs/rpc/testing/test_authority.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/rpc/x509_issue.h"

namespace capstan::rpc {

TestAuthority::TestAuthority(absl::string_view trust_domain, absl::Time now)
    : trust_domain_(trust_domain), now_(now), key_(PrivateKey::Generate().value()) {
  CertificateSpec spec;
  spec.uri = absl::StrCat("spiffe://", trust_domain_);
  spec.not_before = now_ - absl::Hours(24 * 30);
  spec.not_after = now_ + absl::Hours(24 * 365);
  root_ = MakeRootCertificate(spec, key_).value();
}

Svid TestAuthority::Issue(absl::string_view path, absl::Duration life) const {
  const PrivateKey key = PrivateKey::Generate().value();
  CertificateSpec spec;
  spec.uri = absl::StrCat("spiffe://", trust_domain_, path);
  spec.public_key = key.PublicKey();
  spec.not_before = now_ - absl::Hours(1);
  spec.not_after = now_ + life;
  Svid svid;
  svid.key_pem = key.ToPem();
  svid.chain = {IssueCertificate(spec, root_, key_).value()};
  svid.bundle = {root_};
  return svid;
}

std::shared_ptr<Identity> TestAuthority::MakeIdentity(absl::string_view path,
                                                      const std::string& folder,
                                                      absl::Duration life) const {
  return Identity::Store(folder, Issue(path, life)).value();
}

}  // namespace capstan::rpc
