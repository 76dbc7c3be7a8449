// What strangers send as tokens, and what an issuer sends as keys.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/jose/jwt_svid.h"
#include "libs/jose/key_set.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace jose = capstan::jose;
  // Of a P-256 key that nobody has, so that no input is ever valid.
  constexpr char kKeys[] = R"({"keys":[{"alg":"ES256","crv":"P-256","kid":"k","kty":"EC",)"
                           R"("x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",)"
                           R"("y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]})";
  static const auto& keys = *new absl::StatusOr<jose::KeySet>(jose::KeySet::Parse(kKeys));
  if (!keys.ok() || keys->size() != 1) std::abort();
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  if (jose::ValidateJwtSvid(text, *keys, "x.local", "aws", absl::FromUnixSeconds(1'800'000'000))
          .ok()) {
    std::abort();
  }
  const auto set = jose::KeySet::Parse(text);
  if (set.ok() && set->size() > jose::KeySet::kMaxKeys) std::abort();
  return 0;
}
