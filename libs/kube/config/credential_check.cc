#include "libs/kube/config/credential_check.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

constexpr size_t kMaxToken = 65536;

struct Free {
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using CertificatePtr = std::unique_ptr<X509, Free>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Free>;
using BioPtr = std::unique_ptr<BIO, Free>;

absl::Status Bad(absl::string_view reason, absl::string_view message) {
  return status::Error(absl::StatusCode::kInvalidArgument, reason, message);
}

BioPtr Open(absl::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// An encrypted key is refused: OpenSSL would ask the terminal for its password.
int NoPassword(char*, int, int, void*) { return -1; }

// The first certificate; null if any of them is not whole, or there is none.
CertificatePtr ReadChain(absl::string_view pem) {
  ERR_clear_error();
  const BioPtr bio = Open(pem);
  CertificatePtr first;
  while (true) {
    CertificatePtr next(PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr));
    if (next == nullptr) break;
    if (first == nullptr) first = std::move(next);
  }
  // Whatever comes after the last one must not be half of another.
  const bool clean = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  return clean ? std::move(first) : nullptr;
}

}  // namespace

absl::Status CheckToken(absl::string_view token) {
  if (token.empty()) return Bad("KUBE_BAD_TOKEN", "the token is empty");
  if (token.size() > kMaxToken) {
    return Bad("KUBE_BAD_TOKEN", absl::StrCat("the token has ", token.size(), " bytes; at most ",
                                              kMaxToken, " can be sent"));
  }
  for (const char c : token) {
    if (c <= ' ' || c > '~') {
      return Bad("KUBE_BAD_TOKEN",
                 "the token holds a space, a line end or another byte that no token has");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCertificates(absl::string_view pem) {
  if (ReadChain(pem) != nullptr) return absl::OkStatus();
  return Bad("KUBE_BAD_CERTIFICATE",
             "expected PEM certificates, each from BEGIN CERTIFICATE to END CERTIFICATE, and found "
             "none or a damaged one");
}

absl::Status CheckKeyPair(absl::string_view chain_pem, absl::string_view key_pem) {
  const CertificatePtr certificate = ReadChain(chain_pem);
  if (certificate == nullptr) return CheckCertificates(chain_pem);
  const BioPtr bio = Open(key_pem);
  const KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  const bool matches = key != nullptr && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (key == nullptr) {
    return Bad("KUBE_BAD_KEY",
               "expected a PEM private key without a password, and found none, or a damaged or "
               "encrypted one");
  }
  if (!matches) {
    return Bad("KUBE_KEY_MISMATCH", "the private key does not belong to the certificate");
  }
  return absl::OkStatus();
}

}  // namespace capstan::kube
