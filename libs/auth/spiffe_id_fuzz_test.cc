#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/auth/join_token.h"
#include "libs/auth/spiffe_id.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using capstan::auth::SpiffeId;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<SpiffeId> id = SpiffeId::Parse(text);
  if (id.ok() && (id->ToString() != text || SpiffeId::Parse(id->ToString()).value() != *id)) {
    std::abort();
  }
  capstan::auth::ParseJoinToken(text).status().IgnoreError();
  return 0;
}
