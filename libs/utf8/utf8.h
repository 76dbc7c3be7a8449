// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing beyond U+10FFFF.
#ifndef CAPSTAN_LIBS_UTF8_UTF8_H_
#define CAPSTAN_LIBS_UTF8_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace capstan {

// Bytes of the character that `text`, which is not empty, begins with; 0 if none begins there.
size_t CharacterLength(absl::string_view text);

bool IsUtf8(absl::string_view text);

// `bytes` with U+FFFD in place of each byte that belongs to no character.
std::string ToUtf8(absl::string_view bytes);

// Whether terminals and readers of lines may obey the one character `character` instead of showing
// it: control characters, those of ISO 6429 (U+0080 to U+009F) among them, and the separators of
// lines and paragraphs (U+2028, U+2029).
bool IsControl(absl::string_view character);

}  // namespace capstan

#endif  // CAPSTAN_LIBS_UTF8_UTF8_H_
