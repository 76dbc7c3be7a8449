#include "libs/random/timed_uuid.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace capstan {

std::string TimedUuid4(Random* random, absl::Time now) {
  const uint64_t milliseconds =
      static_cast<uint64_t>(absl::ToUnixMillis(now)) & ((uint64_t{1} << 48) - 1);
  // From the digit that says the version on.
  return absl::StrCat(absl::StrFormat("%08x-%04x-", milliseconds >> 16, milliseconds & 0xffff),
                      random->Uuid4().substr(14));
}

}  // namespace capstan
