// `host:port`, as configurations name where to listen and dial, and as processes report themselves.
// Pure: no name is looked up.
#ifndef CAPSTAN_LIBS_ADDRESS_HOST_PORT_H_
#define CAPSTAN_LIBS_ADDRESS_HOST_PORT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace capstan::address {

struct HostPort {
  enum class Kind { kName, kIpv4, kIpv6 };

  Kind kind = Kind::kName;
  // An IPv6 address is without its brackets.
  std::string host;
  // Of an address, in network order: 4 or 16 bytes. Empty for a name.
  std::string bytes;
  // 0 to 65535.
  int port = 0;
};

// Reads `10.0.0.1:80`, `[fd00::7]:80` or `node-7.example.org:80`, 262 bytes at most; else nothing.
// A name has letters, digits, `-` and `.`. One whose last label is a number (`127.1`, `10.0.0.300`)
// is none: resolvers take such for addresses, each in its own way. Nor is an address with a zone
// (`fe80::1%eth0`), which means something on one machine only.
absl::optional<HostPort> ParseHostPort(absl::string_view text);

// Whether who dials `host:port` reaches nobody but its own machine, in its own network: 127.0.0.0/8
// and ::1 in every spelling, mapped into IPv6 or not, and `localhost` in any case. No other name
// does, whatever it begins with or resolves to; nor what ParseHostPort refuses.
bool IsLoopback(absl::string_view host_port);

// Whether the host is 0.0.0.0 or ::, in any spelling: what listens on all addresses, and what
// nobody can be told to dial.
bool IsUnspecified(absl::string_view host_port);

}  // namespace capstan::address

#endif  // CAPSTAN_LIBS_ADDRESS_HOST_PORT_H_
