#include "services/data_loader/core/http_rules.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/content/manifest.h"
#include "libs/safe_path/safe_path.h"
#include "libs/status/error.h"
#include "libs/status/status_macros.h"

namespace capstan::data_loader {
namespace {

constexpr size_t kMaxUrl = 2048;
constexpr size_t kMaxIndexEntries = 1'000'000;
constexpr absl::string_view kUnreserved = "-._~";

absl::Status InvalidUrl(absl::string_view text, absl::string_view problem) {
  absl::string_view shown = text.substr(0, std::min(text.find('?'), size_t{200}));
  // What is before an @ may be a password.
  if (absl::StrContains(text, '@')) shown = shown.substr(0, shown.find("//"));
  return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_URL",
                       absl::StrCat("URL '", absl::CHexEscape(shown), "' ", problem));
}

bool IsDotSegment(absl::string_view segment) {
  const std::string plain = absl::AsciiStrToLower(segment);
  for (const absl::string_view dot : {".", "%2e"}) {
    if (plain == dot) return true;
    for (const absl::string_view other : {".", "%2e"}) {
      if (plain == absl::StrCat(dot, other)) return true;
    }
  }
  return false;
}

int DefaultPort(absl::string_view scheme) { return scheme == "https" ? 443 : 80; }

bool IsHost(absl::string_view host) {
  if (host.empty() || host.size() > 253) return false;
  if (host.front() == '[') {
    const std::string inner(host.substr(1, host.size() - 2));
    in6_addr address;
    return host.back() == ']' && inet_pton(AF_INET6, inner.c_str(), &address) == 1;
  }
  return std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
  });
}

std::string Encoded(absl::string_view path) {
  std::string out;
  for (const char c : path) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '/' ||
        kUnreserved.find(c) != absl::string_view::npos) {
      out.push_back(c);
    } else {
      absl::StrAppend(&out, "%",
                      absl::AsciiStrToUpper(absl::BytesToHexString(absl::string_view(&c, 1))));
    }
  }
  return out;
}

// Undoes %XX; nullopt if it is malformed.
absl::optional<std::string> Decoded(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size() || !absl::ascii_isxdigit(text[i + 1]) ||
        !absl::ascii_isxdigit(text[i + 2])) {
      return absl::nullopt;
    }
    out += absl::HexStringToBytes(text.substr(i + 1, 2));
    i += 2;
  }
  return out;
}

absl::optional<std::string> Base64Sha256(absl::string_view text) {
  std::string bytes;
  if (!absl::Base64Unescape(text, &bytes) || bytes.size() != 32) return absl::nullopt;
  return bytes;
}

absl::string_view Header(const HttpHeaders& headers, const std::string& name) {
  const auto found = headers.find(name);
  return found == headers.end() ? absl::string_view() : absl::string_view(found->second);
}

absl::Status InvalidIndex(size_t line, absl::string_view problem) {
  return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_INDEX",
                       absl::StrCat("line ", line, " of the index: ", problem));
}

}  // namespace

std::string HttpUrl::Shown() const {
  return absl::StrCat(scheme, "://", host,
                      port == DefaultPort(scheme) ? "" : absl::StrCat(":", port), path);
}

std::string HttpUrl::ToString() const {
  return query.empty() ? Shown() : absl::StrCat(Shown(), "?", query);
}

absl::StatusOr<HttpUrl> ParseHttpUrl(absl::string_view text) {
  if (text.size() > kMaxUrl) return InvalidUrl(text, "is longer than 2,048 bytes");
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 0x7f ||
        c == '\\' || c == '"' || c == '<' || c == '>') {
      return InvalidUrl(text, "has a byte that must be encoded");
    }
  }
  HttpUrl url;
  absl::string_view rest = text;
  const size_t colon = rest.find("://");
  if (colon != absl::string_view::npos) url.scheme = absl::AsciiStrToLower(rest.substr(0, colon));
  if (url.scheme != "http" && url.scheme != "https") {
    return InvalidUrl(text, "is neither http:// nor https://");
  }
  rest.remove_prefix(colon + 3);
  if (absl::StrContains(rest, '#')) return InvalidUrl(text, "has a fragment");
  const size_t end = rest.find_first_of("/?");
  absl::string_view authority = rest.substr(0, end);
  rest = end == absl::string_view::npos ? "" : rest.substr(end);
  // Not shown: it may be a password.
  if (absl::StrContains(authority, '@')) {
    return status::Error(absl::StatusCode::kInvalidArgument, "INVALID_URL",
                         "a URL must not hold a user or a password");
  }
  url.port = DefaultPort(url.scheme);
  const size_t bracket = authority.rfind(']');
  const size_t port = authority.find(
      ':', authority.empty() || authority.front() != '[' ? 0 : std::min(bracket, authority.size()));
  if (port != absl::string_view::npos) {
    if (!absl::SimpleAtoi(authority.substr(port + 1), &url.port) || url.port < 1 ||
        url.port > 65535) {
      return InvalidUrl(text, "has a port that is none");
    }
    authority = authority.substr(0, port);
  }
  url.host = absl::AsciiStrToLower(authority);
  if (!IsHost(url.host)) return InvalidUrl(text, "has a host that is none");
  const size_t question = rest.find('?');
  if (question != absl::string_view::npos) url.query = std::string(rest.substr(question + 1));
  url.path = std::string(rest.substr(0, question));
  if (url.path.empty()) url.path = "/";
  for (const absl::string_view segment : absl::StrSplit(url.path, '/')) {
    const std::string lower = absl::AsciiStrToLower(segment);
    if (IsDotSegment(segment) || absl::StrContains(lower, "%2f") ||
        absl::StrContains(lower, "%5c") || absl::StrContains(lower, "%00")) {
      return InvalidUrl(text, "has a path that could lead elsewhere");
    }
  }
  return url;
}

absl::StatusOr<HttpUrl> ResolveHttpUrl(const HttpUrl& base, absl::string_view reference) {
  if (absl::StrContains(reference.substr(0, reference.find_first_of("/?")), ':')) {
    return ParseHttpUrl(reference);
  }
  if (absl::StartsWith(reference, "//")) {
    return ParseHttpUrl(absl::StrCat(base.scheme, ":", reference));
  }
  HttpUrl root = base;
  root.path.clear();
  root.query.clear();
  if (absl::StartsWith(reference, "/")) {
    return ParseHttpUrl(absl::StrCat(root.Shown(), reference));
  }
  const std::string folder = base.path.substr(0, base.path.rfind('/') + 1);
  return ParseHttpUrl(absl::StrCat(root.Shown(), folder, reference));
}

HttpUrl ObjectUrl(const HttpUrl& base, absl::string_view object) {
  HttpUrl url = base;
  absl::StrAppend(&url.path, absl::EndsWith(url.path, "/") ? "" : "/", Encoded(object));
  return url;
}

bool IsAllowedUrl(const HttpUrl& url, const std::vector<std::string>& prefixes) {
  for (const std::string& text : prefixes) {
    const absl::StatusOr<HttpUrl> prefix = ParseHttpUrl(text);
    if (!prefix.ok() || prefix->scheme != url.scheme || prefix->host != url.host ||
        prefix->port != url.port) {
      continue;
    }
    const std::string folder(absl::StripSuffix(prefix->path, "/"));
    if (url.path == folder || absl::StartsWith(url.path, folder + "/")) return true;
  }
  return false;
}

bool IsSpecialAddress(absl::string_view text) {
  const std::string address(text);
  uint8_t bytes[16];
  if (inet_pton(AF_INET6, address.c_str(), bytes) == 1) {
    static constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (std::memcmp(bytes, kMapped, sizeof(kMapped)) != 0) {
      const bool zeros = std::all_of(bytes, bytes + 15, [](uint8_t b) { return b == 0; });
      // The metadata address of a large cloud; site-local is as old as it is private.
      static constexpr uint8_t kMetadata[16] = {0xfd, 0x00, 0x0e, 0xc2, 0, 0, 0,    0,
                                                0,    0,    0,    0,    0, 0, 0x02, 0x54};
      return (zeros && bytes[15] <= 1) || bytes[0] == 0xff ||
             (bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80) ||
             std::memcmp(bytes, kMetadata, sizeof(kMetadata)) == 0;
    }
    std::memmove(bytes, bytes + 12, 4);
  } else if (inet_pton(AF_INET, address.c_str(), bytes) != 1) {
    return true;
  }
  return bytes[0] == 0 || bytes[0] == 127 || (bytes[0] == 169 && bytes[1] == 254) ||
         bytes[0] >= 224;
}

absl::optional<ContentRange> ParseContentRange(absl::string_view value) {
  if (!absl::ConsumePrefix(&value, "bytes ")) return absl::nullopt;
  const std::vector<absl::string_view> parts = absl::StrSplit(value, '/');
  ContentRange range;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &range.total) || range.total < 0) {
    return absl::nullopt;
  }
  if (parts[0] == "*") return range;
  const std::vector<absl::string_view> ends = absl::StrSplit(parts[0], '-');
  if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &range.first) ||
      !absl::SimpleAtoi(ends[1], &range.last) || range.first < 0 || range.last < range.first ||
      range.last >= range.total) {
    return absl::nullopt;
  }
  return range;
}

std::string Sha256FromHeaders(const HttpHeaders& headers) {
  for (const absl::string_view entry : absl::StrSplit(Header(headers, "repr-digest"), ',')) {
    absl::string_view digest = absl::StripAsciiWhitespace(entry);
    if (!absl::ConsumePrefix(&digest, "sha-256=:") || !absl::ConsumeSuffix(&digest, ":")) continue;
    if (const auto bytes = Base64Sha256(digest)) return *bytes;
  }
  for (const absl::string_view entry : absl::StrSplit(Header(headers, "digest"), ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(absl::StripAsciiWhitespace(entry), absl::MaxSplits('=', 1));
    if (!absl::EqualsIgnoreCase(parts.first, "sha-256")) continue;
    if (const auto bytes = Base64Sha256(parts.second)) return *bytes;
  }
  return "";
}

std::string ValidatorFromHeaders(const HttpHeaders& headers) {
  std::string validator;
  const absl::string_view etag = Header(headers, "etag");
  const absl::string_view modified = Header(headers, "last-modified");
  if (!etag.empty()) {
    validator = absl::StrCat("etag ", etag);
  } else if (!modified.empty()) {
    validator = absl::StrCat("modified ", modified);
  }
  const absl::string_view hash = Header(headers, "x-goog-hash");
  if (validator.empty() && !hash.empty()) validator = absl::StrCat("hash ", hash);
  return validator;
}

HttpHeaders ConditionFor(absl::string_view validator) {
  absl::string_view first = validator;
  if (absl::ConsumePrefix(&first, "etag ")) {
    // A weak one never matches; the answer's own is compared.
    if (absl::StartsWith(first, "W/")) return {};
    return {{"If-Match", std::string(first)}};
  }
  if (absl::ConsumePrefix(&first, "modified ")) {
    return {{"If-Unmodified-Since", std::string(first)}};
  }
  return {};
}

HttpClass ClassOf(int status) {
  switch (status) {
    case 200:
    case 206:
      return HttpClass::kOk;
    case 301:
    case 302:
    case 303:
    case 307:
    case 308:
      return HttpClass::kRedirect;
    case 404:
    case 410:
      return HttpClass::kAbsent;
    case 412:
    case 416:
      return HttpClass::kChanged;
    case 408:
    case 425:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
      return HttpClass::kRetry;
    default:
      return HttpClass::kFinal;
  }
}

absl::optional<absl::Duration> ParseRetryAfter(absl::string_view value, absl::Time now) {
  int64_t seconds = 0;
  if (absl::SimpleAtoi(value, &seconds)) {
    if (seconds < 0) return absl::nullopt;
    return absl::Seconds(seconds);
  }
  absl::Time when;
  if (absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", std::string(value), &when, nullptr)) {
    return std::max(absl::ZeroDuration(), when - now);
  }
  return absl::nullopt;
}

bool IsIndex(const HttpUrl& url) { return absl::EndsWith(url.path, ".index"); }

absl::StatusOr<std::vector<IndexEntry>> ParseIndex(const HttpUrl& index, absl::string_view text) {
  HttpUrl folder = index;
  folder.path = index.path.substr(0, index.path.rfind('/') + 1);
  std::vector<IndexEntry> entries;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    if (entries.size() == kMaxIndexEntries) return InvalidIndex(number, "there are too many");
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    IndexEntry& entry = entries.emplace_back();
    if (words.size() == 1) {
      const absl::StatusOr<HttpUrl> url = ResolveHttpUrl(folder, words[0]);
      if (!url.ok()) return InvalidIndex(number, url.status().message());
      entry.url = *url;
      const auto name = Decoded(url->path.substr(url->path.rfind('/') + 1));
      if (!name.has_value()) return InvalidIndex(number, "the URL is wrongly encoded");
      entry.path = *name;
    } else if (words.size() == 3) {
      entry.path = std::string(words[0]);
      int64_t size = 0;
      if (!absl::SimpleAtoi(words[1], &size) || size < 0) {
        return InvalidIndex(number, "the size is no number");
      }
      entry.size_bytes = size;
      if (words[2] != "-") {
        const absl::StatusOr<std::string> hex = content::DigestHex(words[2]);
        if (!hex.ok()) return InvalidIndex(number, hex.status().message());
        entry.sha256 = absl::HexStringToBytes(*hex);
      }
      entry.url = ObjectUrl(folder, entry.path);
    } else {
      return InvalidIndex(number, "is neither a URL nor '<name> <size> <digest>'");
    }
    const absl::Status safe = CheckRelativePath(entry.path);
    if (!safe.ok()) return InvalidIndex(number, safe.message());
  }
  return entries;
}

}  // namespace capstan::data_loader
