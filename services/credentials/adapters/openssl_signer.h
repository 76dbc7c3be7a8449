#ifndef CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_OPENSSL_SIGNER_H_
#define CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_OPENSSL_SIGNER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/credentials/adapters/openssl_ptr.h"
#include "services/credentials/ports/signer.h"

namespace capstan::credentials {

// Signs X.509-SVIDs with a key in this process's memory: one URI name, no common name,
// digitalSignature, client and server, CA:FALSE, key identifiers; ECDSA with SHA-256.
class OpenSslSigner final : public Signer {
 public:
  // `root` is the CA's certificate (DER), `private_key` its key (PKCS#8 DER).
  static absl::StatusOr<std::unique_ptr<OpenSslSigner>> Create(absl::string_view root,
                                                               absl::string_view private_key);

  absl::StatusOr<std::string> Sign(const IssueOrder& order) override;

 private:
  OpenSslSigner(CertificatePtr root, KeyPtr key) : root_(std::move(root)), key_(std::move(key)) {}

  const CertificatePtr root_;
  const KeyPtr key_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_OPENSSL_SIGNER_H_
