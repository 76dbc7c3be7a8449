// What HTTP answers mean to a load, and which URLs may be asked. Pure; all input is from outside.
#ifndef CAPSTAN_SERVICES_DATA_LOADER_CORE_HTTP_RULES_H_
#define CAPSTAN_SERVICES_DATA_LOADER_CORE_HTTP_RULES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace capstan::data_loader {

// An absolute `http` or `https` URL of at most 2,048 bytes, without user, password or fragment.
struct HttpUrl {
  // Lower case.
  std::string scheme;
  std::string host;
  int port = 0;
  // Begins with `/`; has no `.` or `..` segment, encoded or not.
  std::string path;
  // Without `?`; may be a secret.
  std::string query;

  // As it is asked.
  std::string ToString() const;
  // For messages and logs: the query is left out.
  std::string Shown() const;
};

// INVALID_ARGUMENT (INVALID_URL) says what is wrong, without the query.
absl::StatusOr<HttpUrl> ParseHttpUrl(absl::string_view text);
// A `Location`, or a line of an index: absolute, or relative to `base`.
absl::StatusOr<HttpUrl> ResolveHttpUrl(const HttpUrl& base, absl::string_view reference);
// The URL of an object below `base`, whose path ends in `/`: its path is encoded.
HttpUrl ObjectUrl(const HttpUrl& base, absl::string_view object);

// Whether `url` begins with one of the prefixes: same scheme, host and port, and a path at or below
// that of the prefix. A prefix that can't be parsed allows nothing.
bool IsAllowedUrl(const HttpUrl& url, const std::vector<std::string>& prefixes);

// Whether nobody but the machine itself or its cloud is at an address (`127.0.0.1`, `fe80::1`):
// loopback, link-local with the metadata services, multicast, unspecified, and what is no address.
bool IsSpecialAddress(absl::string_view address);

// `bytes 0-99/1000`; last < first stands for `bytes */1000`.
struct ContentRange {
  int64_t first = 0;
  int64_t last = -1;
  int64_t total = 0;
  friend bool operator==(const ContentRange&, const ContentRange&) = default;
};
absl::optional<ContentRange> ParseContentRange(absl::string_view value);

// Headers by lower-case name.
using HttpHeaders = std::map<std::string, std::string>;

// The SHA-256 of the whole object that `Repr-Digest` (RFC 9530) or `Digest` (RFC 3230) give, 32
// bytes; empty if none does.
std::string Sha256FromHeaders(const HttpHeaders& headers);

// What tells whether an object was changed: `etag <value>`, else `modified <value>`, else
// `hash <value>` of what the server says of its content (`x-goog-hash`). Empty if there is nothing.
std::string ValidatorFromHeaders(const HttpHeaders& headers);
// Headers that make a server refuse if the object is another one: `If-Match` for strong ETags,
// `If-Unmodified-Since` for times.
HttpHeaders ConditionFor(absl::string_view validator);

enum class HttpClass {
  kOk,
  // 408, 425, 429, 500, 502, 503, 504: may be mended by another attempt.
  kRetry,
  // 412, 416: the object is another one.
  kChanged,
  kRedirect,
  // 404, 410.
  kAbsent,
  kFinal,
};
HttpClass ClassOf(int status);

// Seconds, or a date; nullopt if it is neither.
absl::optional<absl::Duration> ParseRetryAfter(absl::string_view value, absl::Time now);

// One line of an index.
struct IndexEntry {
  // Where the file lies in the version.
  std::string path;
  HttpUrl url;
  // If the line says so.
  absl::optional<int64_t> size_bytes;
  std::string sha256;
};
// An index: one object a line, either a URL, absolute or relative to the index, or
// `<name> <size> <digest>` with a name below the index's folder and `sha256:<64 hex digits>` or
// `-`. Empty lines and those that begin with `#` are skipped. A URL's file is called by its last
// segment. INVALID_ARGUMENT (INVALID_INDEX) names the line; at most a million entries.
absl::StatusOr<std::vector<IndexEntry>> ParseIndex(const HttpUrl& index, absl::string_view text);
// Whether the URI stands for an index: its path ends in `.index`.
bool IsIndex(const HttpUrl& url);

}  // namespace capstan::data_loader

#endif  // CAPSTAN_SERVICES_DATA_LOADER_CORE_HTTP_RULES_H_
