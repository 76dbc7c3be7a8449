// Owners for OpenSSL's objects.
#ifndef CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_OPENSSL_PTR_H_
#define CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_OPENSSL_PTR_H_

#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

namespace capstan::credentials {

template <auto kFree>
struct OpenSslFree {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using BignumPtr = std::unique_ptr<BIGNUM, OpenSslFree<BN_free>>;
using CipherContextPtr = std::unique_ptr<EVP_CIPHER_CTX, OpenSslFree<EVP_CIPHER_CTX_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, OpenSslFree<X509_EXTENSION_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpenSslFree<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, OpenSslFree<X509_free>>;

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_ADAPTERS_OPENSSL_PTR_H_
