#ifndef CAPSTAN_LIBS_KUBE_CONFIG_NAMESPACE_NAME_H_
#define CAPSTAN_LIBS_KUBE_CONFIG_NAMESPACE_NAME_H_

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace capstan::kube {

inline constexpr char kNamespaceNameExpected[] =
    "expected a namespace: at most 63 of a-z, 0-9 and -, neither first nor last a -";

// An RFC 1123 label, as API servers ask for. What is none must not get into a request's path.
inline bool IsNamespaceName(absl::string_view name) {
  if (name.empty() || name.size() > 63 || name.front() == '-' || name.back() == '-') return false;
  for (const char c : name) {
    if (!absl::ascii_isdigit(c) && !absl::ascii_islower(c) && c != '-') return false;
  }
  return true;
}

}  // namespace capstan::kube

#endif  // CAPSTAN_LIBS_KUBE_CONFIG_NAMESPACE_NAME_H_
