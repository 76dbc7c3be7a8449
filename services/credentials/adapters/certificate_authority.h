#ifndef CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_CERTIFICATE_AUTHORITY_H_
#define CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_CERTIFICATE_AUTHORITY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/credentials/ports/secret_source.h"

namespace capstan::credentials {

// A root of a trust domain.
struct CertificateAuthority {
  // Self-signed certificate, DER.
  std::string root;
  // P-256 key, unencrypted PKCS#8 DER. Seal it before it is kept, and wipe it.
  std::string private_key;
};

// Makes a root that can sign end certificates of its own trust domain and nothing else: CA:TRUE
// with pathlen 0, keyCertSign and cRLSign, names permitted in `spiffe://<trust domain>` only. Valid
// for ten years from `now`, back-dated a little.
absl::StatusOr<CertificateAuthority> MakeCertificateAuthority(absl::string_view trust_domain,
                                                              absl::Time now, SecretSource* source);

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_CERTIFICATE_AUTHORITY_H_
