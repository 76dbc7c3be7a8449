#include "integration/secrets/secret_forms.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace capstan::integration {
namespace {

std::string WithColons(const std::string& hex) {
  std::string text;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    absl::StrAppend(&text, i == 0 ? "" : ":", hex.substr(i, 2));
  }
  return text;
}

std::string Percent(absl::string_view bytes, bool all, bool upper) {
  std::string text;
  for (const char c : bytes) {
    const bool unreserved = absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                            absl::StrContains("-._~", absl::string_view(&c, 1));
    if (unreserved && !all) {
      text.push_back(c);
      continue;
    }
    const std::string hex = absl::BytesToHexString(absl::string_view(&c, 1));
    absl::StrAppend(&text, "%", upper ? absl::AsciiStrToUpper(hex) : hex);
  }
  return text;
}

// What any base64 of something with `piece` at this distance (modulo 3) from its begin must hold.
std::string Base64At(absl::string_view piece, size_t shift) {
  const std::string padded = absl::StrCat(std::string(shift, '\0'), piece);
  const size_t first = (shift * 8 + 5) / 6;
  const size_t end = padded.size() * 8 / 6;
  return absl::Base64Escape(padded).substr(first, end - first);
}

}  // namespace

std::vector<WrittenForm> FormsOf(absl::string_view piece) {
  const std::string hex = absl::BytesToHexString(piece);
  std::vector<WrittenForm> forms = {
      {"raw", std::string(piece)},
      {"hex", hex},
      {"hex", absl::AsciiStrToUpper(hex)},
      {"hex with colons", WithColons(hex)},
      {"hex with colons", WithColons(absl::AsciiStrToUpper(hex))},
      {"percent-encoded", Percent(piece, false, true)},
      {"percent-encoded", Percent(piece, false, false)},
      {"percent-encoded", Percent(piece, true, true)},
      {"percent-encoded", Percent(piece, true, false)},
      {"escaped", absl::CEscape(piece)},
      {"escaped", absl::CHexEscape(piece)},
      {"escaped", absl::Utf8SafeCEscape(piece)},
      {"escaped", absl::Utf8SafeCHexEscape(piece)},
  };
  for (size_t shift = 0; shift < 3; ++shift) {
    const std::string text = Base64At(piece, shift);
    forms.push_back({"base64", text});
    forms.push_back({"base64url", absl::StrReplaceAll(text, {{"+", "-"}, {"/", "_"}})});
    // Slashes as some writers of JSON have them.
    forms.push_back({"base64", absl::StrReplaceAll(text, {{"/", "\\/"}})});
    forms.push_back({"base64, percent-encoded", Percent(text, false, true)});
  }
  return forms;
}

std::string WithoutBreaks(absl::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
    if (c == '\\' && i + 1 < text.size() &&
        (text[i + 1] == 'n' || text[i + 1] == 'r' || text[i + 1] == 't')) {
      ++i;
      continue;
    }
    plain.push_back(c);
  }
  return plain;
}

}  // namespace capstan::integration
