#include "libs/kube/config/printable.h"

#include "libs/utf8/utf8.h"

namespace capstan::kube {

std::string Printable(absl::string_view text) {
  const std::string sound = ToUtf8(text);
  absl::string_view rest = sound;
  std::string out;
  while (!rest.empty()) {
    const absl::string_view character = rest.substr(0, CharacterLength(rest));
    if (!IsControl(character)) {
      out.append(character.data(), character.size());
    } else if (!out.empty() && out.back() != ' ') {
      out.push_back(' ');
    }
    rest.remove_prefix(character.size());
  }
  return out;
}

}  // namespace capstan::kube
