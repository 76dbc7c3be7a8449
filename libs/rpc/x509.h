// Keys, requests and certificates: the few operations of OpenSSL that identities need. Certificates
// and requests are DER in std::string unless a name says PEM.
#ifndef CAPSTAN_LIBS_RPC_X509_H_
#define CAPSTAN_LIBS_RPC_X509_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

struct evp_pkey_st;

namespace capstan::rpc {

// DNS name in every SVID, and server name that every client asks for. It identifies no one; gRPC
// only logs an error for each handshake whose server name is not in the certificate.
inline constexpr char kTlsServerName[] = "svid.capstan.internal";

// A P-256 private key. Copies share the key.
class PrivateKey {
 public:
  static absl::StatusOr<PrivateKey> Generate();
  // The first PKCS#8 or SEC1 key in `pem`. Other kinds of key are refused.
  static absl::StatusOr<PrivateKey> FromPem(absl::string_view pem);

  // PKCS#8, unencrypted.
  std::string ToPem() const;
  // SubjectPublicKeyInfo, DER.
  std::string PublicKey() const;
  evp_pkey_st* get() const { return key_.get(); }

 private:
  explicit PrivateKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}

  std::shared_ptr<evp_pkey_st> key_;
};

// PKCS#10 request for `key` with an empty subject: who it is for is decided by the issuer.
absl::StatusOr<std::string> MakeCertificateRequest(const PrivateKey& key);

// Public key (SubjectPublicKeyInfo, DER) of a PKCS#10 request, after its signature was checked.
// INVALID_ARGUMENT if the bytes are no request, the signature is wrong, or the key is not P-256.
absl::StatusOr<std::string> PublicKeyOfRequest(absl::string_view der);

// What Capstan reads in a certificate.
struct Certificate {
  // The one URI name, if it has one; a certificate with several is refused by ParseCertificate.
  std::string uri;
  // Lower-case hex without leading zeros.
  std::string serial;
  absl::Time not_before;
  absl::Time not_after;
  bool is_ca = false;
  // Issuer and subject are the same name.
  bool self_issued = false;
  // SubjectPublicKeyInfo, DER.
  std::string public_key;
};

// INVALID_ARGUMENT unless `der` is exactly one certificate with at most one URI name, which must be
// printable ASCII. Reads names as bytes: a NUL inside one does not end it. Checks no signature.
absl::StatusOr<Certificate> ParseCertificate(absl::string_view der);

std::string CertificatesToPem(const std::vector<std::string>& ders);
// All CERTIFICATE blocks in order; others are skipped. At most 64.
absl::StatusOr<std::vector<std::string>> CertificatesFromPem(absl::string_view pem);

// Lower-case hex SHA-256 over the roots' DER in the given order: what a join token pins.
std::string BundleSha256(const std::vector<std::string>& roots);
std::string Sha256Hex(absl::string_view bytes);

// Verifies `leaf` up to one of `roots`, over any of `intermediates`, as of `at`. UNAUTHENTICATED
// with OpenSSL's reason if that fails.
absl::Status VerifyChain(absl::string_view leaf, const std::vector<std::string>& intermediates,
                         const std::vector<std::string>& roots, absl::Time at);

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_X509_H_
