#include "services/credentials/adapters/openssl_signer.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/auth/spiffe_id.h"
#include "libs/rpc/x509.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/credentials/adapters/x509_builder.h"

namespace capstan::credentials {

absl::StatusOr<std::unique_ptr<OpenSslSigner>> OpenSslSigner::Create(
    absl::string_view root, absl::string_view private_key) {
  const auto* root_bytes = reinterpret_cast<const unsigned char*>(root.data());
  const auto* key_bytes = reinterpret_cast<const unsigned char*>(private_key.data());
  CertificatePtr certificate(d2i_X509(nullptr, &root_bytes, static_cast<long>(root.size())));
  KeyPtr key(d2i_AutoPrivateKey(nullptr, &key_bytes, static_cast<long>(private_key.size())));
  if (certificate == nullptr || key == nullptr ||
      X509_check_private_key(certificate.get(), key.get()) != 1) {
    return status::Error(absl::StatusCode::kDataLoss, "CA_DAMAGED",
                         "The CA's certificate and key cannot be read, or do not belong together.");
  }
  return std::unique_ptr<OpenSslSigner>(new OpenSslSigner(std::move(certificate), std::move(key)));
}

absl::StatusOr<std::string> OpenSslSigner::Sign(const IssueOrder& order) {
  // Parsing again is cheap, and the URI goes into OpenSSL's extension syntax: nothing that is not
  // exactly one of our ids may get there.
  CAPSTAN_RETURN_IF_ERROR(auth::SpiffeId::Parse(order.spiffe_id).status());
  const auto* bytes = reinterpret_cast<const unsigned char*>(order.spki.data());
  const KeyPtr subject_key(d2i_PUBKEY(nullptr, &bytes, static_cast<long>(order.spki.size())));
  if (subject_key == nullptr) {
    return status::Error(absl::StatusCode::kInvalidArgument, "BAD_PUBLIC_KEY",
                         "The public key cannot be read.");
  }
  return X509Builder(order.serial, order.not_before, order.not_after)
      .Subject("")
      .PublicKey(subject_key.get())
      .Issuer(root_.get())
      .Extension(NID_basic_constraints, "critical,CA:FALSE")
      .Extension(NID_key_usage, "critical,digitalSignature")
      .Extension(NID_ext_key_usage, "serverAuth,clientAuth")
      .Extension(NID_subject_key_identifier, "hash")
      .Extension(NID_authority_key_identifier, "keyid:always")
      // The DNS name that every client asks for: without it gRPC logs an error a handshake.
      .Extension(NID_subject_alt_name,
                 absl::StrCat("URI:", order.spiffe_id, ",DNS:", rpc::kTlsServerName))
      .Sign(key_.get());
}

}  // namespace capstan::credentials
