#include "integration/secrets/key_material.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/x509.h>

#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libs/rpc/x509.h"

namespace capstan::integration {
namespace {

constexpr size_t kScalar = 32;

std::string ScalarOf(const EVP_PKEY* key) {
  BIGNUM* number = nullptr;
  if (EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_PRIV_KEY, &number) != 1) return "";
  std::string scalar(kScalar, '\0');
  BN_bn2binpad(number, reinterpret_cast<unsigned char*>(scalar.data()), kScalar);
  BN_clear_free(number);
  return scalar;
}

}  // namespace

std::string ScalarOfPem(absl::string_view pem) {
  const auto key = rpc::PrivateKey::FromPem(pem);
  return key.ok() ? ScalarOf(key->get()) : "";
}

std::string ScalarOfDer(absl::string_view der) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(der.data());
  EVP_PKEY* key = d2i_AutoPrivateKey(nullptr, &bytes, static_cast<long>(der.size()));
  if (key == nullptr) return "";
  std::string scalar = ScalarOf(key);
  EVP_PKEY_free(key);
  return scalar;
}

std::vector<std::string> PrivateMembersOfJwk(absl::string_view jwk) {
  std::vector<std::string> members;
  for (const char* name : {"d", "p", "q"}) {
    const std::string begin = absl::StrCat("\"", name, "\":\"");
    const size_t at = jwk.find(begin);
    if (at == absl::string_view::npos) continue;
    const absl::string_view rest = jwk.substr(at + begin.size());
    std::string bytes;
    if (absl::WebSafeBase64Unescape(rest.substr(0, rest.find('"')), &bytes)) {
      members.push_back(std::move(bytes));
    }
  }
  return members;
}

std::string NewKeyPem() { return rpc::PrivateKey::Generate().value().ToPem(); }

std::string RandomText(size_t size) {
  std::string bytes(size, '\0');
  RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(size));
  // Letters of both cases and digits, as passwords have them.
  constexpr absl::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  for (char& c : bytes) c = kLetters[static_cast<unsigned char>(c) % kLetters.size()];
  return bytes;
}

}  // namespace capstan::integration
