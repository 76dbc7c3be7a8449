#include "libs/rpc/x509_issue.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/rpc/openssl_ptr.h"
#include "libs/status/status_macros.h"
#include "openssl/rand.h"

namespace capstan::rpc {
namespace {

absl::Status Failed(absl::string_view what) {
  return OpensslError(absl::StatusCode::kInternal, what);
}

absl::Status AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const X509ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  if (extension == nullptr || X509_add_ext(certificate, extension.get(), -1) != 1) {
    return Failed(absl::StrCat("cannot add extension ", OBJ_nid2sn(nid)));
  }
  return absl::OkStatus();
}

absl::Status SetSerial(X509* certificate) {
  const BignumPtr number(BN_new());
  if (number == nullptr || BN_rand(number.get(), 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) != 1 ||
      BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) == nullptr) {
    return Failed("cannot draw a serial");
  }
  return absl::OkStatus();
}

absl::StatusOr<X509Ptr> MakeUnsigned(const CertificateSpec& spec, EVP_PKEY* key) {
  // The name is put into OpenSSL's extension syntax, where a comma would start another one.
  if (absl::StrContains(spec.uri, ",") || absl::StrContains(spec.uri, "\n")) {
    return absl::InvalidArgumentError("bad URI name");
  }
  X509Ptr certificate(X509_new());
  if (certificate == nullptr || X509_set_version(certificate.get(), 2) != 1 ||
      ASN1_TIME_set(X509_getm_notBefore(certificate.get()), absl::ToTimeT(spec.not_before)) ==
          nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(certificate.get()), absl::ToTimeT(spec.not_after)) ==
          nullptr ||
      X509_set_pubkey(certificate.get(), key) != 1) {
    return Failed("cannot make a certificate");
  }
  CAPSTAN_RETURN_IF_ERROR(SetSerial(certificate.get()));
  return certificate;
}

absl::Status AddName(X509_NAME* name, const char* field, const std::string& value) {
  if (X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(value.c_str()), -1, -1,
                                 0) != 1) {
    return Failed("cannot name a certificate");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> MakeRootCertificate(const CertificateSpec& spec,
                                                const PrivateKey& key) {
  CAPSTAN_ASSIGN_OR_RETURN(const X509Ptr certificate, MakeUnsigned(spec, key.get()));
  X509* raw = certificate.get();
  X509_NAME* subject = X509_get_subject_name(raw);
  CAPSTAN_RETURN_IF_ERROR(AddName(subject, "O", "Capstan"));
  CAPSTAN_RETURN_IF_ERROR(AddName(subject, "CN", Sha256Hex(key.PublicKey()).substr(0, 32)));
  X509_set_issuer_name(raw, subject);
  CAPSTAN_RETURN_IF_ERROR(
      AddExtension(raw, raw, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  CAPSTAN_RETURN_IF_ERROR(AddExtension(raw, raw, NID_key_usage, "critical,keyCertSign,cRLSign"));
  CAPSTAN_RETURN_IF_ERROR(AddExtension(raw, raw, NID_subject_key_identifier, "hash"));
  CAPSTAN_RETURN_IF_ERROR(AddExtension(raw, raw, NID_authority_key_identifier, "keyid:always"));
  CAPSTAN_RETURN_IF_ERROR(
      AddExtension(raw, raw, NID_subject_alt_name, absl::StrCat("URI:", spec.uri)));
  if (X509_sign(raw, key.get(), EVP_sha256()) <= 0) return Failed("cannot sign");
  return ToDer(i2d_X509, raw);
}

absl::StatusOr<std::string> IssueCertificate(const CertificateSpec& spec, const std::string& root,
                                             const PrivateKey& root_key) {
  const X509Ptr issuer = X509FromDer(root);
  if (issuer == nullptr || X509_check_private_key(issuer.get(), root_key.get()) != 1) {
    return OpensslError(absl::StatusCode::kInvalidArgument, "root and key do not match");
  }
  const auto* position = reinterpret_cast<const unsigned char*>(spec.public_key.data());
  const EvpPkeyPtr key(
      d2i_PUBKEY(nullptr, &position, static_cast<long>(spec.public_key.size())));  // NOLINT
  if (key == nullptr) return OpensslError(absl::StatusCode::kInvalidArgument, "bad public key");
  CAPSTAN_ASSIGN_OR_RETURN(const X509Ptr certificate, MakeUnsigned(spec, key.get()));
  X509* raw = certificate.get();
  CAPSTAN_RETURN_IF_ERROR(AddName(X509_get_subject_name(raw), "O", "Capstan"));
  X509_set_issuer_name(raw, X509_get_subject_name(issuer.get()));
  CAPSTAN_RETURN_IF_ERROR(
      AddExtension(raw, issuer.get(), NID_basic_constraints, "critical,CA:FALSE"));
  CAPSTAN_RETURN_IF_ERROR(
      AddExtension(raw, issuer.get(), NID_key_usage, "critical,digitalSignature"));
  CAPSTAN_RETURN_IF_ERROR(
      AddExtension(raw, issuer.get(), NID_ext_key_usage, "serverAuth,clientAuth"));
  CAPSTAN_RETURN_IF_ERROR(AddExtension(raw, issuer.get(), NID_subject_key_identifier, "hash"));
  CAPSTAN_RETURN_IF_ERROR(
      AddExtension(raw, issuer.get(), NID_authority_key_identifier, "keyid:always"));
  CAPSTAN_RETURN_IF_ERROR(AddExtension(raw, issuer.get(), NID_subject_alt_name,
                                       absl::StrCat("URI:", spec.uri, ",DNS:", kTlsServerName)));
  if (X509_sign(raw, root_key.get(), EVP_sha256()) <= 0) return Failed("cannot sign");
  return ToDer(i2d_X509, raw);
}

}  // namespace capstan::rpc
