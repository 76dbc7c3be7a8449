#include "libs/label/label.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace capstan::label {
namespace {

bool IsName(absl::string_view text) {
  if (text.empty() || text.size() > 63) return false;
  if (!absl::ascii_isalnum(text.front()) || !absl::ascii_isalnum(text.back())) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

bool IsDnsLabel(absl::string_view text) {
  if (text.empty() || text.front() == '-' || text.back() == '-') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
  });
}

bool IsDnsName(absl::string_view text) {
  if (text.size() > 253) return false;
  const std::vector<absl::string_view> labels = absl::StrSplit(text, '.');
  return std::all_of(labels.begin(), labels.end(), IsDnsLabel);
}

}  // namespace

bool IsKey(absl::string_view key) {
  const size_t slash = key.find('/');
  if (slash == absl::string_view::npos) return IsName(key);
  return IsDnsName(key.substr(0, slash)) && IsName(key.substr(slash + 1));
}

bool IsValue(absl::string_view value) { return value.empty() || IsName(value); }

}  // namespace capstan::label
