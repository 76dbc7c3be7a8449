#include "libs/kube/config/testing/key_pair.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

namespace capstan::kube {
namespace {

struct Free {
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(BIO* bio) const { BIO_free(bio); }
};

std::string Text(BIO* bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  return std::string(bytes, static_cast<size_t>(size));
}

}  // namespace

KeyPair MakeKeyPair() {
  const std::unique_ptr<EVP_PKEY, Free> key(EVP_EC_gen("P-256"));
  const std::unique_ptr<X509, Free> certificate(X509_new());
  const std::unique_ptr<BIO, Free> certificate_bio(BIO_new(BIO_s_mem()));
  const std::unique_ptr<BIO, Free> key_bio(BIO_new(BIO_s_mem()));
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  if (X509_sign(certificate.get(), key.get(), EVP_sha256()) == 0 ||
      PEM_write_bio_X509(certificate_bio.get(), certificate.get()) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(key_bio.get(), key.get(), nullptr, nullptr, 0, nullptr,
                                    nullptr) != 1) {
    return {};
  }
  return {Text(certificate_bio.get()), Text(key_bio.get())};
}

}  // namespace capstan::kube
