// The certificates that credentials makes, field by field.
#ifndef CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_X509_BUILDER_H_
#define CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_X509_BUILDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/credentials/adapters/openssl_ptr.h"

namespace capstan::credentials {

// Builds one version 3 certificate. Errors are kept and come out of Sign, so that calls can follow
// each other plainly. For one thread.
class X509Builder {
 public:
  // `serial` is lower-case hex.
  X509Builder(absl::string_view serial, absl::Time not_before, absl::Time not_after);

  // O=Capstan and, unless `common_name` is empty, a CN.
  X509Builder& Subject(absl::string_view common_name);
  X509Builder& PublicKey(EVP_PKEY* key);
  // Must come before extensions that speak of the issuer. The certificate itself if null.
  X509Builder& Issuer(X509* issuer);
  // In the syntax of OpenSSL's configuration; `value` must hold only what the caller checked.
  X509Builder& Extension(int nid, const std::string& value);

  // Signs with SHA-256 and returns DER. Once.
  absl::StatusOr<std::string> Sign(EVP_PKEY* key);

 private:
  // Keeps the first failure, with OpenSSL's own words.
  void Check(bool good, absl::string_view step);

  CertificatePtr certificate_;
  X509* issuer_ = nullptr;
  absl::Status status_;
};

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_X509_BUILDER_H_
