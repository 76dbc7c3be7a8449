#ifndef CAPSTAN_LIBS_RPC_X509_ISSUE_H_
#define CAPSTAN_LIBS_RPC_X509_ISSUE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/rpc/x509.h"

namespace capstan::rpc {

// What a new certificate says. The serial is drawn by OpenSSL: 127 random bits.
struct CertificateSpec {
  // `spiffe://…`; of a root the trust domain alone.
  std::string uri;
  // SubjectPublicKeyInfo, DER.
  std::string public_key;
  absl::Time not_before;
  absl::Time not_after;
};

// A self-signed root for `key` (spec.public_key is ignored), which may sign leaves only. Its
// subject names the trust domain and the key, so that roots of one domain differ by name.
absl::StatusOr<std::string> MakeRootCertificate(const CertificateSpec& spec, const PrivateKey& key);

// An X.509-SVID signed by a root: for client and server, digital signature only, not a CA.
// INVALID_ARGUMENT if `root` and `root_key` do not belong together.
absl::StatusOr<std::string> IssueCertificate(const CertificateSpec& spec, const std::string& root,
                                             const PrivateKey& root_key);

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_X509_ISSUE_H_
