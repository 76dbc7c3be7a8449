#include "services/node_agent/declared_taints.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace capstan::node_agent {

using capstan::type::v1::Taint;

namespace {

// What the scheduler takes of a Node.
constexpr int kMaxTaints = 32;

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

bool IsKey(absl::string_view key) {
  const size_t slash = key.find('/');
  if (slash == absl::string_view::npos) return IsName(key);
  const absl::string_view prefix = key.substr(0, slash);
  const std::vector<absl::string_view> labels = absl::StrSplit(prefix, '.');
  return prefix.size() <= 253 && std::all_of(labels.begin(), labels.end(), IsDnsLabel) &&
         IsName(key.substr(slash + 1));
}

}  // namespace

void CheckDeclaredTaints(absl::string_view field,
                         const google::protobuf::RepeatedPtrField<Taint>& taints,
                         status::FieldErrors* errors) {
  if (taints.size() > kMaxTaints) {
    errors->Add(field,
                absl::StrCat("has ", taints.size(), " entries; expected at most ", kMaxTaints));
    return;
  }
  std::set<std::string> keys;
  for (int i = 0; i < taints.size(); ++i) {
    const std::string one = absl::StrCat(field, "[", i, "]");
    const Taint& taint = taints[i];
    if (!IsKey(taint.key())) {
      errors->Add(one + ".key", absl::StrCat("is `", taint.key(),
                                             "`; expected a label's key, [prefix/]name, such as "
                                             "capstan.dev/team"));
    } else if (!keys.insert(taint.key()).second) {
      errors->Add(one + ".key", absl::StrCat("`", taint.key(), "` is the key of an earlier taint"));
    }
    if (!taint.value().empty() && !IsName(taint.value())) {
      errors->Add(one + ".value",
                  absl::StrCat("is `", taint.value(),
                               "`; expected nothing, or 1 to 63 of [A-Za-z0-9._-] with a letter or "
                               "digit at both ends"));
    }
  }
}

}  // namespace capstan::node_agent
