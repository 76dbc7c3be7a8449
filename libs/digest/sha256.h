#ifndef CAPSTAN_LIBS_DIGEST_SHA256_H_
#define CAPSTAN_LIBS_DIGEST_SHA256_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

struct evp_md_ctx_st;

namespace capstan {

// SHA-256 by OpenSSL, all at once or piece by piece. For one thread.
class Sha256 {
 public:
  static constexpr size_t kSize = 32;

  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(absl::string_view bytes);
  // The 32 bytes. Afterwards the object is as new.
  std::string Finish();

  static std::string Of(absl::string_view bytes);

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace capstan

#endif  // CAPSTAN_LIBS_DIGEST_SHA256_H_
