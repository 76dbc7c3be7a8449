#ifndef CAPSTAN_SERVICES_CREDENTIALS_CORE_SERIAL_H_
#define CAPSTAN_SERVICES_CREDENTIALS_CORE_SERIAL_H_

#include <cstddef>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace capstan::credentials {

inline constexpr size_t kSerialBytes = 16;

// A certificate's serial from 16 random bytes: 32 lower-case hex digits, of which the first is 4 to
// 7, so that it is positive and always as long; 126 bits are random.
inline std::string SerialFrom(absl::string_view random) {
  std::string bytes(random);
  bytes[0] = static_cast<char>((static_cast<unsigned char>(bytes[0]) & 0x7f) | 0x40);
  return absl::BytesToHexString(bytes);
}

}  // namespace capstan::credentials

#endif  // CAPSTAN_SERVICES_CREDENTIALS_CORE_SERIAL_H_
