#include "libs/jose/jwk_members.h"

#include <string.h>

#include <algorithm>

#include "absl/strings/escaping.h"

namespace capstan::jose {
namespace {

void Wipe(std::string* text) { explicit_bzero(text->data(), text->size()); }

}  // namespace

absl::optional<std::string> DecodeBase64Url(absl::string_view text) {
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(text, &bytes)) return absl::nullopt;
  std::string again = absl::WebSafeBase64Escape(bytes);
  const bool is_same = again == text;
  Wipe(&again);
  if (is_same) return bytes;
  Wipe(&bytes);
  return absl::nullopt;
}

bool HasMembers(const nlohmann::json& jwk, absl::Span<const char* const> names) {
  return std::all_of(names.begin(), names.end(), [&jwk](const char* name) {
    const auto member = jwk.find(name);
    if (member == jwk.end() || !member->is_string()) return false;
    absl::optional<std::string> bytes = DecodeBase64Url(member->get_ref<const std::string&>());
    if (!bytes.has_value() || bytes->empty()) return false;
    Wipe(&*bytes);
    return true;
  });
}

void Wipe(nlohmann::json* object) {
  for (auto& member : *object) {
    if (member.is_string()) Wipe(&member.get_ref<std::string&>());
  }
}

}  // namespace capstan::jose
