#include "libs/digest/sha256.h"

#include <openssl/evp.h>

#include <cstdlib>

namespace capstan {
namespace {

// OpenSSL's SHA-256 fails only for want of memory, which nothing here survives.
void Check(int ok) {
  if (ok != 1) std::abort();
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { ::EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(::EVP_MD_CTX_new()) {
  Check(context_ != nullptr ? 1 : 0);
  Check(::EVP_DigestInit_ex(context_.get(), ::EVP_sha256(), nullptr));
}

Sha256::~Sha256() = default;

void Sha256::Update(absl::string_view bytes) {
  Check(::EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

std::string Sha256::Finish() {
  std::string digest(kSize, '\0');
  Check(::EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()),
                             nullptr));
  Check(::EVP_DigestInit_ex(context_.get(), ::EVP_sha256(), nullptr));
  return digest;
}

std::string Sha256::Of(absl::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Finish();
}

}  // namespace capstan
