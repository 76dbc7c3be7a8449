#include "libs/kube/transport/request_rules.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/kube/transport/transport_error.h"
#include "libs/status/error.h"

namespace capstan::kube {
namespace {

constexpr absl::string_view kTokenMarks = "!#$%&'*+-.^_`|~";
// RFC 3986: what a path and a query are made of, besides letters and digits.
constexpr absl::string_view kTargetMarks = "-._~%!$&'()*+,;=:@/?";

// Those that the transport sets, and those of one connection, which are not a caller's.
constexpr absl::string_view kReserved[] = {
    "host",    "authorization",    "content-length", "connection", "transfer-encoding",
    "upgrade", "proxy-connection", "keep-alive",     "te",         "expect",
    "trailer", "accept-encoding",  ":authority"};

bool IsOneOf(char c, absl::string_view marks) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         marks.find(c) != absl::string_view::npos;
}

// RFC 9110: token.
bool IsToken(absl::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return IsOneOf(c, kTokenMarks); });
}

absl::Status Bad(absl::string_view what) {
  return status::Error(absl::StatusCode::kInvalidArgument, kBadRequest, what);
}

std::string EscapedKey(absl::string_view key) {
  std::string escaped;
  for (const char c : absl::AsciiStrToLower(key)) {
    if (c != '%' && IsOneOf(c, kTokenMarks)) {
      escaped += c;
    } else {
      absl::StrAppend(&escaped, "%",
                      absl::AsciiStrToUpper(absl::BytesToHexString(absl::string_view(&c, 1))));
    }
  }
  return escaped;
}

}  // namespace

bool IsHeaderValue(absl::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= ' ' && byte != 0x7f);
  });
}

absl::Status CheckBearerToken(absl::string_view token) {
  if (std::all_of(token.begin(), token.end(),
                  [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); })) {
    return absl::OkStatus();
  }
  return status::Error(absl::StatusCode::kUnauthenticated, kNoCredential,
                       "the bearer token is not one word of printable ASCII; look where it comes "
                       "from for line ends and spaces");
}

absl::Status CheckRequest(const HttpRequest& request) {
  if (!IsToken(request.method)) return Bad("the method is no token of HTTP");
  if (!absl::StartsWith(request.target, "/")) return Bad("the target must begin with /");
  if (!std::all_of(request.target.begin(), request.target.end(),
                   [](char c) { return IsOneOf(c, kTargetMarks); })) {
    return Bad("the target has a character that must be escaped");
  }
  for (const HttpHeader& header : request.headers) {
    if (!IsToken(header.name)) return Bad("the name of a header is no token of HTTP");
    if (!IsHeaderValue(header.value)) {
      return Bad(absl::StrCat("header ", header.name, " has a control character"));
    }
    for (const absl::string_view reserved : kReserved) {
      if (absl::EqualsIgnoreCase(header.name, reserved)) {
        return Bad(absl::StrCat("header ", header.name, " is set by the transport"));
      }
    }
  }
  if (request.timeout <= absl::ZeroDuration() || request.idle_timeout <= absl::ZeroDuration()) {
    return Bad("a timeout must be above 0");
  }
  return absl::OkStatus();
}

absl::Status CheckImpersonation(const Impersonation& impersonation) {
  const auto bad = [](absl::string_view value) { return !IsHeaderValue(value); };
  if (impersonation.user.empty() &&
      !(impersonation.uid.empty() && impersonation.groups.empty() && impersonation.extra.empty())) {
    return absl::InvalidArgumentError("impersonation needs a user");
  }
  if (bad(impersonation.user) || bad(impersonation.uid) ||
      std::any_of(impersonation.groups.begin(), impersonation.groups.end(), bad)) {
    return absl::InvalidArgumentError("a name to impersonate has a control character");
  }
  for (const auto& [key, values] : impersonation.extra) {
    if (key.empty() || std::any_of(values.begin(), values.end(), bad)) {
      return absl::InvalidArgumentError(
          "an extra to impersonate has no key or a control character");
    }
  }
  return absl::OkStatus();
}

std::vector<HttpHeader> ImpersonationHeaders(const Impersonation& impersonation) {
  std::vector<HttpHeader> headers;
  if (impersonation.user.empty()) return headers;
  headers.push_back({"Impersonate-User", impersonation.user});
  if (!impersonation.uid.empty()) headers.push_back({"Impersonate-Uid", impersonation.uid});
  for (const std::string& group : impersonation.groups) {
    headers.push_back({"Impersonate-Group", group});
  }
  for (const auto& [key, values] : impersonation.extra) {
    for (const std::string& value : values) {
      headers.push_back({absl::StrCat("Impersonate-Extra-", EscapedKey(key)), value});
    }
  }
  return headers;
}

}  // namespace capstan::kube
