#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "libs/address/host_port.h"

using capstan::address::HostPort;

// What is accepted says the same again when it is written out.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = capstan::address::ParseHostPort(text);
  const bool loopback = capstan::address::IsLoopback(text);
  const bool unspecified = capstan::address::IsUnspecified(text);
  if (loopback && unspecified) std::abort();
  if (!parsed.has_value()) {
    if (loopback || unspecified) std::abort();
    return 0;
  }
  const bool ipv6 = parsed->kind == HostPort::Kind::kIpv6;
  const std::string written =
      (ipv6 ? "[" + parsed->host + "]" : parsed->host) + ":" + std::to_string(parsed->port);
  const auto again = capstan::address::ParseHostPort(written);
  if (!again.has_value() || again->kind != parsed->kind || again->bytes != parsed->bytes ||
      again->port != parsed->port || capstan::address::IsLoopback(written) != loopback) {
    std::abort();
  }
  return 0;
}
