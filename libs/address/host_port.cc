#include "libs/address/host_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace capstan::address {
namespace {

// Of a name; RFC 1035.
constexpr size_t kMaxHost = 253;
// The port, its colon and an address's brackets.
constexpr size_t kMaxText = kMaxHost + 9;
// ::ffff:0:0/96, IPv4 within IPv6; RFC 4291.
constexpr absl::string_view kMapped("\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);

// Its bytes; empty if `host` is no such address.
std::string AddressBytes(int family, const std::string& host) {
  std::string bytes(family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr), '\0');
  // It would end at a NUL.
  if (absl::StrContains(host, '\0')) return "";
  return inet_pton(family, host.c_str(), bytes.data()) == 1 ? bytes : "";
}

bool IsNumber(absl::string_view label) {
  if (absl::ConsumePrefix(&label, "0x") || absl::ConsumePrefix(&label, "0X")) {
    return std::all_of(label.begin(), label.end(), absl::ascii_isxdigit);
  }
  return std::all_of(label.begin(), label.end(), absl::ascii_isdigit);
}

bool IsName(absl::string_view host) {
  if (host.empty() || host.size() > kMaxHost) return false;
  const bool known = std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
  });
  // A final dot says only that the name is whole.
  absl::string_view last = absl::StripSuffix(host, ".");
  last = last.substr(last.rfind('.') + 1);
  return known && !last.empty() && !IsNumber(last);
}

// False for a sign and for spaces, too.
bool ParsePort(absl::string_view text, int* port) {
  return text.size() <= 5 && std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, port) && *port <= 65535;
}

// In IPv6 form, so that there is one of each; empty for a name or nonsense.
std::string Ipv6Bytes(absl::string_view host_port, absl::optional<HostPort>* parsed) {
  *parsed = ParseHostPort(host_port);
  if (!parsed->has_value() || (*parsed)->kind == HostPort::Kind::kName) return "";
  if ((*parsed)->kind == HostPort::Kind::kIpv6) return (*parsed)->bytes;
  return std::string(kMapped) + (*parsed)->bytes;
}

}  // namespace

absl::optional<HostPort> ParseHostPort(absl::string_view text) {
  const size_t colon = text.rfind(':');
  if (text.size() > kMaxText || colon == absl::string_view::npos) return absl::nullopt;
  HostPort parsed;
  if (!ParsePort(text.substr(colon + 1), &parsed.port)) return absl::nullopt;
  absl::string_view host = text.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) {
    if (!absl::ConsumeSuffix(&host, "]")) return absl::nullopt;
    parsed.kind = HostPort::Kind::kIpv6;
    parsed.bytes = AddressBytes(AF_INET6, std::string(host));
    if (parsed.bytes.empty()) return absl::nullopt;
  } else {
    parsed.bytes = AddressBytes(AF_INET, std::string(host));
    if (!parsed.bytes.empty()) {
      parsed.kind = HostPort::Kind::kIpv4;
    } else if (!IsName(host)) {
      return absl::nullopt;
    }
  }
  parsed.host = std::string(host);
  return parsed;
}

bool IsLoopback(absl::string_view host_port) {
  absl::optional<HostPort> parsed;
  const std::string bytes = Ipv6Bytes(host_port, &parsed);
  if (bytes.empty()) return parsed.has_value() && absl::EqualsIgnoreCase(parsed->host, "localhost");
  if (absl::StartsWith(bytes, kMapped)) return bytes[kMapped.size()] == 127;
  return bytes == std::string(15, '\0') + '\1';
}

bool IsUnspecified(absl::string_view host_port) {
  absl::optional<HostPort> parsed;
  const std::string bytes = Ipv6Bytes(host_port, &parsed);
  return bytes == std::string(16, '\0') || bytes == std::string(kMapped) + std::string(4, '\0');
}

}  // namespace capstan::address
