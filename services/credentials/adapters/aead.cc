#include "services/credentials/adapters/aead.h"

#include <string>

#include "libs/status/error.h"
#include "services/credentials/adapters/openssl_ptr.h"

namespace capstan::credentials {
namespace {

const unsigned char* Bytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

absl::Status NotOpened() {
  return status::Error(absl::StatusCode::kDataLoss, "KEY_NOT_OPENED",
                       "The sealed bytes do not belong to this key and context, or were changed.");
}

absl::Status Failed() {
  return status::Error(absl::StatusCode::kInternal, "CIPHER_FAILED", "AES-256-GCM failed.");
}

}  // namespace

absl::StatusOr<std::string> AeadSeal(absl::string_view key, absl::string_view nonce,
                                     absl::string_view plaintext, absl::string_view context) {
  CipherContextPtr cipher(EVP_CIPHER_CTX_new());
  std::string sealed(plaintext.size() + kAeadTagSize, '\0');
  auto* out = reinterpret_cast<unsigned char*>(sealed.data());
  int size = 0;
  int rest = 0;
  if (key.size() != kAeadKeySize || nonce.size() != kAeadNonceSize || cipher == nullptr ||
      EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, Bytes(key), Bytes(nonce)) != 1 ||
      EVP_EncryptUpdate(cipher.get(), nullptr, &size, Bytes(context),
                        static_cast<int>(context.size())) != 1 ||
      EVP_EncryptUpdate(cipher.get(), out, &size, Bytes(plaintext),
                        static_cast<int>(plaintext.size())) != 1 ||
      EVP_EncryptFinal_ex(cipher.get(), out + size, &rest) != 1 ||
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kAeadTagSize,
                          out + plaintext.size()) != 1) {
    return Failed();
  }
  return sealed;
}

absl::StatusOr<std::string> AeadOpen(absl::string_view key, absl::string_view nonce,
                                     absl::string_view sealed, absl::string_view context) {
  if (key.size() != kAeadKeySize || nonce.size() != kAeadNonceSize ||
      sealed.size() < kAeadTagSize) {
    return NotOpened();
  }
  const absl::string_view ciphertext = sealed.substr(0, sealed.size() - kAeadTagSize);
  std::string tag(sealed.substr(ciphertext.size()));
  CipherContextPtr cipher(EVP_CIPHER_CTX_new());
  std::string plaintext(ciphertext.size(), '\0');
  auto* out = reinterpret_cast<unsigned char*>(plaintext.data());
  int size = 0;
  int rest = 0;
  if (cipher == nullptr ||
      EVP_DecryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, Bytes(key), Bytes(nonce)) != 1 ||
      EVP_DecryptUpdate(cipher.get(), nullptr, &size, Bytes(context),
                        static_cast<int>(context.size())) != 1 ||
      EVP_DecryptUpdate(cipher.get(), out, &size, Bytes(ciphertext),
                        static_cast<int>(ciphertext.size())) != 1 ||
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kAeadTagSize, tag.data()) != 1) {
    return Failed();
  }
  if (EVP_DecryptFinal_ex(cipher.get(), out + size, &rest) != 1) return NotOpened();
  return plaintext;
}

}  // namespace capstan::credentials
