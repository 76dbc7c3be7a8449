// Networks as somebody wrote them, and addresses of clients: who is let in is decided as by a bit
// by bit comparison of what the C library reads.
#include <arpa/inet.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "libs/fuzzing/fuzz_input.h"
#include "libs/metrics/client_addresses.h"

namespace {

using capstan::fuzzing::Require;
using capstan::metrics::ClientAddresses;

// 128 characters `0` and `1`.
absl::optional<std::string> BitsOf(const std::string& address, int* width) {
  unsigned char bytes[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (address.find('\0') != std::string::npos) return absl::nullopt;
  if (inet_pton(AF_INET, address.c_str(), bytes + 12) == 1) {
    *width = 32;
  } else if (inet_pton(AF_INET6, address.c_str(), bytes) == 1) {
    *width = 128;
  } else {
    return absl::nullopt;
  }
  std::string bits;
  for (const unsigned char byte : bytes) {
    for (int bit = 7; bit >= 0; --bit) bits.push_back((byte >> bit & 1) != 0 ? '1' : '0');
  }
  return bits;
}

// The bits that an address must begin with.
absl::optional<std::string> NetworkOf(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('/', 1));
  int width = 0;
  const absl::optional<std::string> bits = BitsOf(parts[0], &width);
  if (!bits.has_value()) return absl::nullopt;
  if (parts.size() == 1) return *bits;
  int prefix = 0;
  if (!absl::SimpleAtoi(parts[1], &prefix) || absl::StrCat(prefix) != parts[1] || prefix < 0 ||
      prefix > width) {
    return absl::nullopt;
  }
  return bits->substr(0, 128 - width + prefix);
}

bool Begins(const std::string& bits, const std::string& network) {
  return bits.compare(0, network.size(), network) == 0;
}

}  // namespace

// The first line is the client.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  const std::string client = lines[0];
  lines.erase(lines.begin());
  std::vector<std::string> networks = {*NetworkOf("127.0.0.0/8"), *NetworkOf("::1")};
  bool all_networks = lines.size() <= 64;
  for (const std::string& line : lines) {
    const absl::optional<std::string> network = NetworkOf(line);
    all_networks &= network.has_value();
    if (network.has_value()) networks.push_back(*network);
  }
  const auto addresses = ClientAddresses::Parse(lines);
  Require(addresses.ok() == all_networks);
  if (!addresses.ok()) return 0;
  int width = 0;
  const absl::optional<std::string> bits = BitsOf(client, &width);
  bool inside = false;
  for (const std::string& network : networks) inside |= bits.has_value() && Begins(*bits, network);
  Require(addresses->Contain(client) == inside);
  return 0;
}
