#include "services/credentials/adapters/certificate_authority.h"

#include <openssl/ec.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"
#include "services/credentials/adapters/openssl_ptr.h"
#include "services/credentials/adapters/x509_builder.h"
#include "services/credentials/core/serial.h"

namespace capstan::credentials {
namespace {

constexpr absl::Duration kRootLife = absl::Hours(24 * 3653);
constexpr absl::Duration kBackDate = absl::Minutes(1);

absl::StatusOr<std::string> EncodePrivateKey(EVP_PKEY* key) {
  const std::unique_ptr<PKCS8_PRIV_KEY_INFO, OpenSslFree<PKCS8_PRIV_KEY_INFO_free>> info(
      EVP_PKEY2PKCS8(key));
  unsigned char* bytes = nullptr;
  const int size = info == nullptr ? -1 : i2d_PKCS8_PRIV_KEY_INFO(info.get(), &bytes);
  if (size <= 0) {
    return status::Error(absl::StatusCode::kInternal, "KEY_NOT_MADE",
                         "The CA's key could not be encoded.");
  }
  std::string der(reinterpret_cast<char*>(bytes), static_cast<size_t>(size));
  OPENSSL_clear_free(bytes, static_cast<size_t>(size));
  return der;
}

}  // namespace

absl::StatusOr<CertificateAuthority> MakeCertificateAuthority(absl::string_view trust_domain,
                                                              absl::Time now,
                                                              SecretSource* source) {
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) {
    return status::Error(absl::StatusCode::kInternal, "KEY_NOT_MADE",
                         "The CA's key could not be made.");
  }
  CAPSTAN_ASSIGN_OR_RETURN(const std::string random, source->Bytes(kSerialBytes));
  CertificateAuthority authority;
  CAPSTAN_ASSIGN_OR_RETURN(
      authority.root,
      X509Builder(SerialFrom(random), now - kBackDate, now + kRootLife)
          .Subject(trust_domain)
          .PublicKey(key.get())
          .Issuer(nullptr)
          .Extension(NID_basic_constraints, "critical,CA:TRUE,pathlen:0")
          .Extension(NID_key_usage, "critical,keyCertSign,cRLSign")
          .Extension(NID_subject_key_identifier, "hash")
          .Extension(NID_name_constraints, absl::StrCat("critical,permitted;URI:", trust_domain))
          .Extension(NID_subject_alt_name, absl::StrCat("URI:spiffe://", trust_domain))
          .Sign(key.get()));
  CAPSTAN_ASSIGN_OR_RETURN(authority.private_key, EncodePrivateKey(key.get()));
  return authority;
}

}  // namespace capstan::credentials
