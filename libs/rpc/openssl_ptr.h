// RAII for OpenSSL. For the .cc files of this package only.
#ifndef CAPSTAN_LIBS_RPC_OPENSSL_PTR_H_
#define CAPSTAN_LIBS_RPC_OPENSSL_PTR_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "openssl/bio.h"
#include "openssl/err.h"
#include "openssl/evp.h"
#include "openssl/x509.h"
#include "openssl/x509v3.h"

namespace capstan::rpc {

template <auto kFree>
struct OpensslDelete {
  template <typename T>
  void operator()(T* value) const {
    kFree(value);
  }
};
template <typename T, auto kFree>
using OpensslPtr = std::unique_ptr<T, OpensslDelete<kFree>>;

using BioPtr = OpensslPtr<BIO, BIO_free_all>;
using X509Ptr = OpensslPtr<X509, X509_free>;
using X509ReqPtr = OpensslPtr<X509_REQ, X509_REQ_free>;
using X509StorePtr = OpensslPtr<X509_STORE, X509_STORE_free>;
using X509StoreCtxPtr = OpensslPtr<X509_STORE_CTX, X509_STORE_CTX_free>;
using X509ExtensionPtr = OpensslPtr<X509_EXTENSION, X509_EXTENSION_free>;
using EvpPkeyPtr = OpensslPtr<EVP_PKEY, EVP_PKEY_free>;
using BignumPtr = OpensslPtr<BIGNUM, BN_free>;
using GeneralNamesPtr = OpensslPtr<GENERAL_NAMES, GENERAL_NAMES_free>;

// For stacks that own their elements.
struct X509StackDelete {
  void operator()(STACK_OF(X509) * stack) const { sk_X509_pop_free(stack, X509_free); }
};
using X509StackPtr = std::unique_ptr<STACK_OF(X509), X509StackDelete>;

// An error with the last entry of this thread's OpenSSL queue, which is emptied.
inline absl::Status OpensslError(absl::StatusCode code, absl::string_view what) {
  char text[256] = "no reason given";
  const unsigned long error = ERR_peek_last_error();  // NOLINT(google-runtime-int)
  if (error != 0) ERR_error_string_n(error, text, sizeof(text));
  ERR_clear_error();
  return absl::Status(code, absl::StrCat(what, ": ", text));
}

// Runs one of the i2d_ functions.
template <typename Encode, typename T>
std::string ToDer(Encode encode, T* value) {
  unsigned char* bytes = nullptr;
  const int size = encode(value, &bytes);
  if (size < 0) return "";
  std::string der(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  OPENSSL_free(bytes);
  return der;
}

// Null unless the bytes are exactly one certificate.
inline X509Ptr X509FromDer(absl::string_view der) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(der.data());
  const unsigned char* position = bytes;
  X509Ptr certificate(d2i_X509(nullptr, &position, static_cast<long>(der.size())));  // NOLINT
  if (certificate != nullptr && position != bytes + der.size()) return nullptr;
  return certificate;
}

}  // namespace capstan::rpc

#endif  // CAPSTAN_LIBS_RPC_OPENSSL_PTR_H_
