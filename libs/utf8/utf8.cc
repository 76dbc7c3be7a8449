#include "libs/utf8/utf8.h"

#include <algorithm>

namespace capstan {

size_t CharacterLength(absl::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xC2 && first < 0xE0   ? 2
                        : first >= 0xE0 && first < 0xF0 ? 3
                        : first >= 0xF0 && first < 0xF5 ? 4
                                                        : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool right = (first != 0xE0 || second >= 0xA0) && (first != 0xED || second < 0xA0) &&
                     (first != 0xF0 || second >= 0x90) && (first != 0xF4 || second < 0x90);
  return right ? length : 0;
}

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string ToUtf8(absl::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t length = CharacterLength(bytes);
    const absl::string_view character =
        length == 0 ? absl::string_view("\uFFFD") : bytes.substr(0, length);
    text.append(character.data(), character.size());
    bytes.remove_prefix(std::max<size_t>(length, 1));
  }
  return text;
}

bool IsControl(absl::string_view character) {
  if (character.size() == 1) {
    const auto byte = static_cast<unsigned char>(character[0]);
    return byte < 0x20 || byte == 0x7f;
  }
  if (character.size() == 2) {
    return character[0] == '\xc2' && static_cast<unsigned char>(character[1]) < 0xa0;
  }
  return character == "\u2028" || character == "\u2029";
}

}  // namespace capstan
