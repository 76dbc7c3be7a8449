#include "libs/kube/transport/endpoint.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace capstan::kube {
namespace {

constexpr int kHttpsPort = 443;
constexpr int kHttpPort = 80;
constexpr int kMostPorts = 65535;

bool IsPort(absl::string_view text, int* port) {
  return absl::SimpleAtoi(text, port) && *port > 0 && *port <= kMostPorts &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// The bytes of an address, 4 or 16; empty if `text` is none.
std::string AddressBytes(absl::string_view text) {
  const std::string copy(text);
  uint8_t bytes[16];
  if (inet_pton(AF_INET, copy.c_str(), bytes) == 1) {
    return std::string(reinterpret_cast<const char*>(bytes), 4);
  }
  if (inet_pton(AF_INET6, copy.c_str(), bytes) == 1) {
    return std::string(reinterpret_cast<const char*>(bytes), 16);
  }
  return "";
}

bool InBlock(absl::string_view block, const std::string& address) {
  const std::vector<absl::string_view> parts = absl::StrSplit(block, '/');
  int bits = 0;
  if (parts.size() != 2 || address.empty() || !absl::SimpleAtoi(parts[1], &bits)) return false;
  const std::string base = AddressBytes(parts[0]);
  if (base.size() != address.size() || bits < 0 || bits > static_cast<int>(base.size()) * 8) {
    return false;
  }
  for (int bit = 0; bit < bits; ++bit) {
    const int mask = 0x80 >> (bit % 8);
    if (((base[bit / 8] ^ address[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

// Parts `host:port`, `[v6]:port`, `host` and `[v6]`; port is 0 if there is none.
bool PartAuthority(absl::string_view text, std::string* host, int* port) {
  *port = 0;
  absl::string_view rest;
  if (absl::ConsumePrefix(&text, "[")) {
    const size_t end = text.find(']');
    if (end == absl::string_view::npos) return false;
    *host = std::string(text.substr(0, end));
    if (AddressBytes(*host).size() != 16) return false;
    rest = text.substr(end + 1);
  } else {
    const size_t colon = text.find(':');
    *host = std::string(text.substr(0, colon));
    rest = colon == absl::string_view::npos ? "" : text.substr(colon);
  }
  if (rest.empty()) return !host->empty();
  return absl::ConsumePrefix(&rest, ":") && IsPort(rest, port) && !host->empty();
}

bool IsHost(absl::string_view host) {
  return !AddressBytes(host).empty() || std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
  });
}

bool Names(absl::string_view entry, const Endpoint& endpoint) {
  if (entry == "*") return true;
  const std::string address = AddressBytes(endpoint.host);
  if (absl::StrContains(entry, '/')) return InBlock(entry, address);
  if (const std::string bytes = AddressBytes(entry); !bytes.empty()) return bytes == address;
  std::string host;
  int port = 0;
  if (!PartAuthority(entry, &host, &port)) return false;
  if (port != 0 && port != endpoint.port) return false;
  if (const std::string bytes = AddressBytes(host); !bytes.empty()) return bytes == address;
  if (!address.empty()) return false;
  absl::string_view domain = host;
  absl::ConsumePrefix(&domain, "*");
  const std::string below = absl::StrCat(absl::StartsWith(domain, ".") ? "" : ".", domain);
  return absl::EqualsIgnoreCase(endpoint.host, domain) ||
         absl::EndsWithIgnoreCase(endpoint.host, below);
}

}  // namespace

std::string Endpoint::Authority() const {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                      : absl::StrCat(host, ":", port);
}

absl::StatusOr<Endpoint> ParseEndpoint(absl::string_view url) {
  Endpoint endpoint;
  if (absl::ConsumePrefix(&url, "http://")) {
    endpoint.tls = false;
  } else if (!absl::ConsumePrefix(&url, "https://")) {
    return absl::InvalidArgumentError("the API server's URL must begin with https:// or http://");
  }
  const size_t slash = url.find('/');
  const absl::string_view authority = url.substr(0, slash);
  if (!PartAuthority(authority, &endpoint.host, &endpoint.port) || !IsHost(endpoint.host)) {
    return absl::InvalidArgumentError("the API server's URL must have host or host:port");
  }
  if (endpoint.port == 0) endpoint.port = endpoint.tls ? kHttpsPort : kHttpPort;
  absl::string_view prefix = slash == absl::string_view::npos ? "" : url.substr(slash);
  while (absl::ConsumeSuffix(&prefix, "/")) {
  }
  if (!std::all_of(prefix.begin(), prefix.end(), [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
               absl::string_view("-._~%!$&'()*+,;=:@/").find(c) != absl::string_view::npos;
      })) {
    return absl::InvalidArgumentError("the API server's URL must end with a plain path");
  }
  endpoint.prefix = std::string(prefix);
  return endpoint;
}

bool BypassesProxy(absl::string_view no_proxy, const Endpoint& endpoint) {
  for (const absl::string_view entry : absl::StrSplit(no_proxy, ',')) {
    if (Names(absl::StripAsciiWhitespace(entry), endpoint)) return true;
  }
  return false;
}

}  // namespace capstan::kube
