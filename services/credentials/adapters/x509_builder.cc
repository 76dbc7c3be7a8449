#include "services/credentials/adapters/x509_builder.h"

#include <openssl/err.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"

namespace capstan::credentials {

X509Builder::X509Builder(absl::string_view serial, absl::Time not_before, absl::Time not_after)
    : certificate_(X509_new()) {
  Check(certificate_ != nullptr, "allocate");
  if (!status_.ok()) return;
  BIGNUM* number = nullptr;
  Check(BN_hex2bn(&number, std::string(serial).c_str()) == static_cast<int>(serial.size()),
        "read the serial");
  const BignumPtr owned(number);
  Check(X509_set_version(certificate_.get(), X509_VERSION_3) == 1, "set the version");
  Check(owned != nullptr &&
            BN_to_ASN1_INTEGER(owned.get(), X509_get_serialNumber(certificate_.get())) != nullptr,
        "set the serial");
  Check(
      ASN1_TIME_set(X509_getm_notBefore(certificate_.get()), absl::ToTimeT(not_before)) != nullptr,
      "set notBefore");
  Check(ASN1_TIME_set(X509_getm_notAfter(certificate_.get()), absl::ToTimeT(not_after)) != nullptr,
        "set notAfter");
}

X509Builder& X509Builder::Subject(absl::string_view common_name) {
  if (!status_.ok()) return *this;
  X509_NAME* name = X509_get_subject_name(certificate_.get());
  const auto add = [name](const char* field, absl::string_view value) {
    return X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                                      reinterpret_cast<const unsigned char*>(value.data()),
                                      static_cast<int>(value.size()), -1, 0) == 1;
  };
  Check(add("O", "Capstan") && (common_name.empty() || add("CN", common_name)), "set the subject");
  return *this;
}

X509Builder& X509Builder::PublicKey(EVP_PKEY* key) {
  if (status_.ok()) Check(X509_set_pubkey(certificate_.get(), key) == 1, "set the public key");
  return *this;
}

X509Builder& X509Builder::Issuer(X509* issuer) {
  if (!status_.ok()) return *this;
  issuer_ = issuer == nullptr ? certificate_.get() : issuer;
  Check(X509_set_issuer_name(certificate_.get(), X509_get_subject_name(issuer_)) == 1,
        "set the issuer");
  return *this;
}

X509Builder& X509Builder::Extension(int nid, const std::string& value) {
  if (!status_.ok()) return *this;
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer_, certificate_.get(), nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  Check(extension != nullptr && X509_add_ext(certificate_.get(), extension.get(), -1) == 1,
        absl::StrCat("add extension ", OBJ_nid2sn(nid)));
  return *this;
}

absl::StatusOr<std::string> X509Builder::Sign(EVP_PKEY* key) {
  if (status_.ok()) Check(X509_sign(certificate_.get(), key, EVP_sha256()) > 0, "sign");
  if (!status_.ok()) return status_;
  unsigned char* bytes = nullptr;
  const int size = i2d_X509(certificate_.get(), &bytes);
  Check(size > 0, "encode");
  if (!status_.ok()) return status_;
  std::string der(reinterpret_cast<char*>(bytes), static_cast<size_t>(size));
  OPENSSL_free(bytes);
  return der;
}

void X509Builder::Check(bool good, absl::string_view step) {
  if (good || !status_.ok()) return;
  char reason[160] = "no reason given";
  const unsigned long error = ERR_peek_last_error();  // NOLINT(google-runtime-int): its type
  if (error != 0) ERR_error_string_n(error, reason, sizeof(reason));
  ERR_clear_error();
  status_ = status::Error(absl::StatusCode::kInternal, "CERTIFICATE_NOT_MADE",
                          absl::StrCat("Could not ", step, " of a certificate: ", reason));
}

}  // namespace capstan::credentials
