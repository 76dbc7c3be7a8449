#include "libs/kube/client/response.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "libs/utf8/utf8.h"

namespace capstan::kube {
namespace {

constexpr size_t kMaxWarnings = 32;
constexpr size_t kMaxText = 1024;

void SkipSpace(absl::string_view* rest) { *rest = absl::StripLeadingAsciiWhitespace(*rest); }

// A quoted string of RFC 9110. False if it has no end.
bool TakeQuoted(absl::string_view* rest, std::string* text) {
  if (!absl::ConsumePrefix(rest, "\"")) return false;
  for (size_t i = 0; i < rest->size(); ++i) {
    if ((*rest)[i] == '"') {
      rest->remove_prefix(i + 1);
      return true;
    }
    if ((*rest)[i] == '\\' && ++i == rest->size()) return false;
    if (text->size() < kMaxText) *text += (*rest)[i];
  }
  return false;
}

// `299 agent "text" ["date"]`, several with commas between them.
void ReadValue(absl::string_view rest, std::vector<std::string>* warnings) {
  while (warnings->size() < kMaxWarnings) {
    SkipSpace(&rest);
    if (!absl::ConsumePrefix(&rest, "299 ")) return;
    const size_t agent = rest.find(' ');
    if (agent == absl::string_view::npos) return;
    rest.remove_prefix(agent + 1);
    std::string text;
    if (!TakeQuoted(&rest, &text)) return;
    warnings->push_back(ToUtf8(text));
    SkipSpace(&rest);
    std::string date;
    if (absl::StartsWith(rest, "\"") && !TakeQuoted(&rest, &date)) return;
    SkipSpace(&rest);
    if (!absl::ConsumePrefix(&rest, ",")) return;
  }
}

}  // namespace

std::vector<std::string> ReadWarnings(const std::vector<HttpHeader>& headers) {
  std::vector<std::string> warnings;
  for (const HttpHeader& header : headers) {
    if (absl::EqualsIgnoreCase(header.name, "Warning")) ReadValue(header.value, &warnings);
  }
  return warnings;
}

FlowControl ReadFlowControl(const std::vector<HttpHeader>& headers) {
  return {std::string(FindHeader(headers, "X-Kubernetes-PF-FlowSchema-UID").value_or("")),
          std::string(FindHeader(headers, "X-Kubernetes-PF-PriorityLevel-UID").value_or(""))};
}

}  // namespace capstan::kube
