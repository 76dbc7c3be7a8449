#include "libs/kube/transport/transport.h"

#include "absl/strings/match.h"

namespace capstan::kube {

absl::optional<absl::string_view> FindHeader(const std::vector<HttpHeader>& headers,
                                             absl::string_view name) {
  for (const HttpHeader& header : headers) {
    if (absl::EqualsIgnoreCase(header.name, name)) return header.value;
  }
  return absl::nullopt;
}

}  // namespace capstan::kube
