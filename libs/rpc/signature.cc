#include "libs/rpc/signature.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/rpc/openssl_ptr.h"

namespace capstan::rpc {
namespace {

using ContextPtr = OpensslPtr<EVP_MD_CTX, EVP_MD_CTX_free>;

std::string Signed(absl::string_view purpose, absl::string_view statement) {
  return absl::StrCat(purpose, absl::string_view("\0", 1), statement);
}

const unsigned char* Bytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

absl::StatusOr<std::string> Sign(const PrivateKey& key, absl::string_view purpose,
                                 absl::string_view statement) {
  const std::string bytes = Signed(purpose, statement);
  const ContextPtr context(EVP_MD_CTX_new());
  size_t size = 0;
  std::string signature;
  bool ok = context != nullptr &&
            EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) == 1 &&
            EVP_DigestSign(context.get(), nullptr, &size, Bytes(bytes), bytes.size()) == 1;
  if (ok) {
    signature.resize(size);
    ok = EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                        Bytes(bytes), bytes.size()) == 1;
    signature.resize(size);
  }
  if (!ok) return OpensslError(absl::StatusCode::kInternal, "signing failed");
  return signature;
}

bool SignatureHolds(absl::string_view public_key, absl::string_view purpose,
                    absl::string_view statement, absl::string_view signature) {
  const unsigned char* position = Bytes(public_key);
  const EvpPkeyPtr key(
      d2i_PUBKEY(nullptr, &position, static_cast<long>(public_key.size())));  // NOLINT
  const ContextPtr context(EVP_MD_CTX_new());
  const std::string bytes = Signed(purpose, statement);
  const bool holds =
      key != nullptr && context != nullptr &&
      EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) == 1 &&
      EVP_DigestVerify(context.get(), Bytes(signature), signature.size(), Bytes(bytes),
                       bytes.size()) == 1;
  // What OpenSSL found wrong must not be taken for the next caller's error.
  if (!holds) ERR_clear_error();
  return holds;
}

}  // namespace capstan::rpc
