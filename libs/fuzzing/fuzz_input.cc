#include "libs/fuzzing/fuzz_input.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace capstan::fuzzing {

void Require(bool condition) {
  if (!condition) std::abort();
}

uint8_t FuzzInput::Byte() {
  if (rest_.empty()) return 0;
  const auto byte = static_cast<uint8_t>(rest_.front());
  rest_.remove_prefix(1);
  return byte;
}

size_t FuzzInput::Below(size_t n) { return n == 0 ? 0 : Byte() % n; }

int64_t FuzzInput::Number() {
  static constexpr int64_t kBorders[] = {std::numeric_limits<int64_t>::max(),
                                         std::numeric_limits<int64_t>::min(),
                                         std::numeric_limits<int32_t>::max(),
                                         std::numeric_limits<int32_t>::min(),
                                         int64_t{1} << 32,
                                         int64_t{1} << 62,
                                         1'000'000'000,
                                         -1'000'000'000,
                                         315'576'000'000,  // the longest Duration
                                         315'576'000'001,
                                         253'402'300'799,  // the last Timestamp
                                         253'402'300'800,
                                         1 << 20,
                                         65536};
  const uint8_t kind = Byte();
  if (kind < 200) return int64_t{kind} - 4;
  if (kind < 240) return kBorders[kind % (sizeof(kBorders) / sizeof(kBorders[0]))];
  uint64_t number = 0;
  for (const char byte : Bytes(8)) number = number << 8 | static_cast<uint8_t>(byte);
  return static_cast<int64_t>(number);
}

absl::string_view FuzzInput::Bytes(size_t most) {
  const absl::string_view bytes = rest_.substr(0, most);
  rest_.remove_prefix(bytes.size());
  return bytes;
}

std::string FuzzInput::Word(const std::vector<std::string>& words) {
  const uint8_t kind = Byte();
  if (kind < 240 && !words.empty()) return words[kind % words.size()];
  std::string text;
  for (const char byte : Bytes(kind & 15)) {
    if ((static_cast<uint8_t>(byte) & 0x80) == 0) {
      text += byte;
    } else {
      text += '\xc3';
      text += static_cast<char>(0x80 | (static_cast<uint8_t>(byte) & 0x3f));
    }
  }
  return text;
}

absl::string_view FuzzInput::Rest() { return Bytes(rest_.size()); }

}  // namespace capstan::fuzzing
