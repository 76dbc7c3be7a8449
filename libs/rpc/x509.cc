#include "libs/rpc/x509.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "libs/rpc/openssl_ptr.h"
#include "libs/status/status_macros.h"
#include "openssl/core_names.h"
#include "openssl/ec.h"
#include "openssl/pem.h"
#include "openssl/sha.h"

namespace capstan::rpc {
namespace {

constexpr size_t kMaxCertificates = 64;

absl::Status Invalid(absl::string_view what) {
  return OpensslError(absl::StatusCode::kInvalidArgument, what);
}

bool IsP256(EVP_PKEY* key) {
  char group[64] = "";
  size_t length = 0;
  return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
         EVP_PKEY_get_group_name(key, group, sizeof(group), &length) == 1 &&
         absl::string_view(group) == "prime256v1";
}

std::string BioToString(BIO* bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);  // NOLINT(google-runtime-int)
  return std::string(bytes, static_cast<size_t>(size));
}

BioPtr BioOf(absl::string_view bytes) {
  return BioPtr(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
}

absl::StatusOr<absl::Time> ToTime(const ASN1_TIME* time) {
  std::tm parts = {};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return Invalid("bad time");
  return absl::FromTM(parts, absl::UTCTimeZone());
}

absl::StatusOr<std::string> SerialOf(X509* certificate) {
  const BignumPtr number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  if (number == nullptr || BN_is_negative(number.get())) return Invalid("bad serial");
  std::string bytes(static_cast<size_t>(BN_num_bytes(number.get())), '\0');
  BN_bn2bin(number.get(), reinterpret_cast<unsigned char*>(bytes.data()));
  const std::string hex = absl::BytesToHexString(bytes);
  const size_t first = hex.find_first_not_of('0');
  return first == std::string::npos ? std::string("0") : hex.substr(first);
}

// The one URI name, or empty.
absl::StatusOr<std::string> UriOf(X509* certificate) {
  int critical = 0;
  const GeneralNamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, &critical, nullptr)));
  if (names == nullptr) {
    // -1: absent; -2: more than once; else it does not parse.
    if (critical == -1) return std::string();
    return Invalid("bad subjectAltName");
  }
  std::string uri;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    if (!uri.empty()) return Invalid("more than one URI name");
    const ASN1_IA5STRING* text = name->d.uniformResourceIdentifier;
    uri.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
               static_cast<size_t>(ASN1_STRING_length(text)));
    if (uri.empty() ||
        !std::all_of(uri.begin(), uri.end(), [](char c) { return absl::ascii_isgraph(c); })) {
      return Invalid("the URI name is empty or not printable");
    }
  }
  return uri;
}

absl::StatusOr<X509StackPtr> StackOf(const std::vector<std::string>& ders) {
  X509StackPtr stack(sk_X509_new_null());
  for (const std::string& der : ders) {
    X509Ptr certificate = X509FromDer(der);
    if (certificate == nullptr) return Invalid("not a certificate");
    sk_X509_push(stack.get(), certificate.release());
  }
  return stack;
}

}  // namespace

absl::StatusOr<PrivateKey> PrivateKey::Generate() {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  if (key == nullptr) return OpensslError(absl::StatusCode::kInternal, "cannot make a key");
  return PrivateKey(std::shared_ptr<EVP_PKEY>(key, EVP_PKEY_free));
}

absl::StatusOr<PrivateKey> PrivateKey::FromPem(absl::string_view pem) {
  const BioPtr bio = BioOf(pem);
  // Never ask a terminal for a pass phrase.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  EvpPkeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  if (key == nullptr) return Invalid("not a private key in PEM");
  if (!IsP256(key.get())) return Invalid("not a P-256 key");
  return PrivateKey(std::shared_ptr<EVP_PKEY>(key.release(), EVP_PKEY_free));
}

std::string PrivateKey::ToPem() const {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PKCS8PrivateKey(bio.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return BioToString(bio.get());
}

std::string PrivateKey::PublicKey() const { return ToDer(i2d_PUBKEY, key_.get()); }

absl::StatusOr<std::string> MakeCertificateRequest(const PrivateKey& key) {
  const X509ReqPtr request(X509_REQ_new());
  if (request == nullptr || X509_REQ_set_version(request.get(), 0) != 1 ||
      X509_REQ_set_pubkey(request.get(), key.get()) != 1 ||
      X509_REQ_sign(request.get(), key.get(), EVP_sha256()) <= 0) {
    return OpensslError(absl::StatusCode::kInternal, "cannot make a certificate request");
  }
  return ToDer(i2d_X509_REQ, request.get());
}

absl::StatusOr<std::string> PublicKeyOfRequest(absl::string_view der) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(der.data());
  const unsigned char* position = bytes;
  const X509ReqPtr request(
      d2i_X509_REQ(nullptr, &position, static_cast<long>(der.size())));  // NOLINT
  if (request == nullptr || position != bytes + der.size()) {
    return Invalid("not a PKCS#10 certificate request");
  }
  EVP_PKEY* key = X509_REQ_get0_pubkey(request.get());
  if (key == nullptr || !IsP256(key)) return Invalid("the key of the request is not P-256");
  if (X509_REQ_verify(request.get(), key) != 1) {
    return Invalid("the request is not signed by its key");
  }
  return ToDer(i2d_PUBKEY, key);
}

absl::StatusOr<Certificate> ParseCertificate(absl::string_view der) {
  const X509Ptr certificate = X509FromDer(der);
  if (certificate == nullptr) return Invalid("not a certificate");
  Certificate result;
  CAPSTAN_ASSIGN_OR_RETURN(result.uri, UriOf(certificate.get()));
  CAPSTAN_ASSIGN_OR_RETURN(result.serial, SerialOf(certificate.get()));
  CAPSTAN_ASSIGN_OR_RETURN(result.not_before, ToTime(X509_get0_notBefore(certificate.get())));
  CAPSTAN_ASSIGN_OR_RETURN(result.not_after, ToTime(X509_get0_notAfter(certificate.get())));
  result.is_ca = X509_check_ca(certificate.get()) == 1;
  result.self_issued = X509_NAME_cmp(X509_get_subject_name(certificate.get()),
                                     X509_get_issuer_name(certificate.get())) == 0;
  EVP_PKEY* key = X509_get0_pubkey(certificate.get());
  if (key == nullptr) return Invalid("the certificate's key is of no known kind");
  result.public_key = ToDer(i2d_PUBKEY, key);
  ERR_clear_error();
  return result;
}

std::string CertificatesToPem(const std::vector<std::string>& ders) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  for (const std::string& der : ders) {
    PEM_write_bio(bio.get(), PEM_STRING_X509, "",
                  reinterpret_cast<const unsigned char*>(der.data()),
                  static_cast<long>(der.size()));  // NOLINT
  }
  return BioToString(bio.get());
}

absl::StatusOr<std::vector<std::string>> CertificatesFromPem(absl::string_view pem) {
  const BioPtr bio = BioOf(pem);
  std::vector<std::string> ders;
  while (true) {
    const X509Ptr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (certificate == nullptr) break;
    if (ders.size() == kMaxCertificates) return Invalid("more than 64 certificates");
    ders.push_back(ToDer(i2d_X509, certificate.get()));
  }
  // The end of the text also shows as an error; every other one is a damaged block.
  const unsigned long error = ERR_peek_last_error();  // NOLINT(google-runtime-int)
  if (ERR_GET_LIB(error) != ERR_LIB_PEM || ERR_GET_REASON(error) != PEM_R_NO_START_LINE) {
    return Invalid("damaged certificate in PEM");
  }
  ERR_clear_error();
  return ders;
}

std::string Sha256Hex(absl::string_view bytes) {
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), hash);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(hash), sizeof(hash)));
}

std::string BundleSha256(const std::vector<std::string>& roots) {
  std::string all;
  for (const std::string& root : roots) all += root;
  return Sha256Hex(all);
}

absl::Status VerifyChain(absl::string_view leaf, const std::vector<std::string>& intermediates,
                         const std::vector<std::string>& roots, absl::Time at) {
  const X509Ptr certificate = X509FromDer(leaf);
  if (certificate == nullptr) return Invalid("not a certificate");
  CAPSTAN_ASSIGN_OR_RETURN(const X509StackPtr untrusted, StackOf(intermediates));
  CAPSTAN_ASSIGN_OR_RETURN(const X509StackPtr trusted, StackOf(roots));
  const X509StorePtr store(X509_STORE_new());
  const X509StoreCtxPtr context(X509_STORE_CTX_new());
  if (store == nullptr || context == nullptr ||
      X509_STORE_CTX_init(context.get(), store.get(), certificate.get(), untrusted.get()) != 1) {
    return OpensslError(absl::StatusCode::kInternal, "cannot verify a certificate");
  }
  X509_STORE_CTX_set0_trusted_stack(context.get(), trusted.get());
  X509_VERIFY_PARAM* params = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_time(params, absl::ToTimeT(at));
  X509_VERIFY_PARAM_set_depth(params, 4);
  X509_VERIFY_PARAM_set_flags(params, X509_V_FLAG_X509_STRICT);
  if (X509_verify_cert(context.get()) != 1) {
    const int error = X509_STORE_CTX_get_error(context.get());
    ERR_clear_error();
    return absl::UnauthenticatedError(X509_verify_cert_error_string(error));
  }
  return absl::OkStatus();
}

}  // namespace capstan::rpc
