#include "libs/kube/testing/http_target.h"

#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace capstan::kube::testing {
namespace {

absl::optional<std::string> Unescape(absl::string_view text, bool is_query) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_query && text[i] == '+') {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      if (i + 2 >= text.size() || !absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 1])) ||
          !absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 2]))) {
        return absl::nullopt;
      }
      out += absl::HexStringToBytes(text.substr(i + 1, 2));
      i += 2;
    }
  }
  return out;
}

}  // namespace

std::string HttpTarget::Parameter(absl::string_view name) const {
  const auto found = query.find(std::string(name));
  return found == query.end() ? "" : found->second;
}

bool HttpTarget::Flag(absl::string_view name) const {
  const std::string value = Parameter(name);
  return value == "1" || value == "t" || value == "T" || value == "true" || value == "TRUE" ||
         value == "True";
}

absl::optional<HttpTarget> ParseTarget(absl::string_view target) {
  HttpTarget out;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(target, absl::MaxSplits('?', 1));
  for (const absl::string_view segment : absl::StrSplit(parts.first, '/', absl::SkipEmpty())) {
    absl::optional<std::string> plain = Unescape(segment, /*is_query=*/false);
    if (!plain.has_value()) return absl::nullopt;
    out.segments.push_back(*std::move(plain));
  }
  for (const absl::string_view pair : absl::StrSplit(parts.second, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> both =
        absl::StrSplit(pair, absl::MaxSplits('=', 1));
    absl::optional<std::string> name = Unescape(both.first, /*is_query=*/true);
    absl::optional<std::string> value = Unescape(both.second, /*is_query=*/true);
    if (!name.has_value() || !value.has_value()) return absl::nullopt;
    out.query.emplace(*std::move(name), *std::move(value));
  }
  return out;
}

std::string EscapeQuery(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_' ||
        c == '~') {
      out += c;
    } else {
      absl::StrAppend(&out, "%", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    }
  }
  return out;
}

}  // namespace capstan::kube::testing
