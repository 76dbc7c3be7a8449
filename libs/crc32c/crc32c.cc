#include "libs/crc32c/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace capstan {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

uint32_t ExtendByTable(const char* p, size_t n, uint32_t crc) {
  for (; n > 0; --n, ++p) crc = kTable[(crc ^ static_cast<uint8_t>(*p)) & 0xff] ^ (crc >> 8);
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t ExtendByInstruction(const char* p, size_t n,
                                                               uint32_t crc) {
  uint64_t wide = crc;
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, sizeof word);
    wide = _mm_crc32_u64(wide, word);
  }
  crc = static_cast<uint32_t>(wide);
  for (; n > 0; --n, ++p) crc = _mm_crc32_u8(crc, static_cast<uint8_t>(*p));
  return crc;
}
#endif

}  // namespace

uint32_t Crc32c(absl::string_view bytes, uint32_t crc) {
#if defined(__x86_64__)
  static const bool instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (instruction) return ~ExtendByInstruction(bytes.data(), bytes.size(), ~crc);
#endif
  return ~ExtendByTable(bytes.data(), bytes.size(), ~crc);
}

}  // namespace capstan
