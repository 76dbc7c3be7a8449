#include "libs/kube/config/server_url.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/address/host_port.h"

namespace capstan::kube {
namespace {

constexpr size_t kMaxBytes = 2048;

// Takes the scheme, in any case, off `text`.
bool TakeScheme(absl::string_view scheme, absl::string_view* text) {
  const size_t size = scheme.size() + 3;
  if (text->size() < size || !absl::EqualsIgnoreCase(text->substr(0, scheme.size()), scheme) ||
      text->substr(scheme.size(), 3) != "://") {
    return false;
  }
  text->remove_prefix(size);
  return true;
}

bool IsPrintable(absl::string_view text) {
  for (const char c : text) {
    if (c <= ' ' || c == 0x7f || c == '\\' || c == '"' || c == '<' || c == '>') return false;
  }
  return true;
}

// A host without a port gets the scheme's.
absl::optional<address::HostPort> ParseHost(absl::string_view text, int default_port) {
  const bool has_port =
      absl::StartsWith(text, "[") ? absl::StrContains(text, "]:") : absl::StrContains(text, ":");
  absl::optional<address::HostPort> host =
      has_port ? address::ParseHostPort(text)
               : address::ParseHostPort(absl::StrCat(text, ":", default_port));
  if (!host.has_value() || host->host.empty() || host->port == 0) return absl::nullopt;
  return host;
}

}  // namespace

absl::optional<ServerUrl> ParseServerUrl(absl::string_view text) {
  if (text.size() > kMaxBytes || !IsPrintable(text)) return absl::nullopt;
  ServerUrl url;
  if (!TakeScheme("https", &text)) {
    if (!TakeScheme("http", &text)) return absl::nullopt;
    url.tls = false;
  }
  if (text.find_first_of("@?#") != absl::string_view::npos) return absl::nullopt;
  const size_t slash = text.find('/');
  absl::string_view path;
  if (slash != absl::string_view::npos) {
    path = text.substr(slash);
    text = text.substr(0, slash);
  }
  absl::optional<address::HostPort> host = ParseHost(text, url.tls ? 443 : 80);
  if (!host.has_value()) return absl::nullopt;
  url.host = std::move(host->host);
  url.port = host->port;
  while (absl::EndsWith(path, "/")) path.remove_suffix(1);
  if (!path.empty()) {
    for (const absl::string_view part : absl::StrSplit(path.substr(1), '/')) {
      if (part.empty() || part == "." || part == "..") return absl::nullopt;
    }
  }
  url.path = std::string(path);
  return url;
}

bool IsProxyUrl(absl::string_view text) {
  if (text.size() > kMaxBytes || !IsPrintable(text)) return false;
  int port = 0;
  if (TakeScheme("http", &text)) {
    port = 80;
  } else if (TakeScheme("https", &text)) {
    port = 443;
  } else if (TakeScheme("socks5", &text)) {
    port = 1080;
  } else {
    return false;
  }
  if (absl::EndsWith(text, "/")) text.remove_suffix(1);
  if (text.find_first_of("/?#") != absl::string_view::npos) return false;
  const size_t at = text.rfind('@');
  if (at != absl::string_view::npos) {
    if (absl::StrContains(text.substr(0, at), "@")) return false;
    text.remove_prefix(at + 1);
  }
  return ParseHost(text, port).has_value();
}

}  // namespace capstan::kube
