#include "libs/kube/transport/h2_headers.h"

#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace capstan::kube {

H2Headers::H2Headers(const H2Setup& setup, const H2Exchange& exchange) {
  const HttpRequest& request = exchange.request();
  pairs_.reserve(request.headers.size() + setup.headers.size() + 7);
  Add(":method", request.method);
  Add(":scheme", "https");
  Add(":authority", setup.authority);
  const std::string& prefix = setup.endpoint.prefix;
  Add(":path", prefix.empty() ? absl::string_view(request.target)
                              : Keep(absl::StrCat(prefix, request.target)));
  if (!FindHeader(request.headers, "User-Agent").has_value()) {
    Add("user-agent", setup.options.user_agent);
  }
  for (const HttpHeader& header : setup.headers) Add(header.name, header.value);
  for (const HttpHeader& header : request.headers) {
    Add(Keep(absl::AsciiStrToLower(header.name)), absl::StripAsciiWhitespace(header.value));
  }
  if (const std::string& token = exchange.credential().bearer_token; !token.empty()) {
    Add("authorization", Keep(absl::StrCat("Bearer ", token)));
  }
  const bool writes =
      request.method == "POST" || request.method == "PUT" || request.method == "PATCH";
  if (writes || !request.body.empty()) {
    Add("content-length", Keep(absl::StrCat(request.body.size())));
  }
}

absl::string_view H2Headers::Keep(std::string text) { return kept_.emplace_back(std::move(text)); }

void H2Headers::Add(absl::string_view name, absl::string_view value) {
  // NOLINTBEGIN(cppcoreguidelines-pro-type-const-cast): nghttp2 only reads them.
  pairs_.push_back({reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
                    reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(),
                    value.size(), NGHTTP2_NV_FLAG_NONE});
  // NOLINTEND(cppcoreguidelines-pro-type-const-cast)
}

}  // namespace capstan::kube
