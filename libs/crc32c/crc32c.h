#ifndef CAPSTAN_LIBS_CRC32C_CRC32C_H_
#define CAPSTAN_LIBS_CRC32C_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace capstan {

// CRC-32C (Castagnoli, RFC 3720), as frames on disk carry it. `crc` is the value of the bytes
// before, 0 at the beginning.
uint32_t Crc32c(absl::string_view bytes, uint32_t crc = 0);

}  // namespace capstan

#endif  // CAPSTAN_LIBS_CRC32C_CRC32C_H_
