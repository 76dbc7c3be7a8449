#include "libs/metrics/client_addresses.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "boost/asio/ip/address.hpp"
#include "libs/status/error.h"

namespace capstan::metrics {
namespace {

namespace ip = boost::asio::ip;

constexpr size_t kMaxNetworks = 64;

// Network order; IPv4 as the IPv6 addresses that stand for it, so that both compare alike.
using Bytes = ip::address_v6::bytes_type;

struct Network {
  Bytes address;
  int prefix_bits = 0;
};

Bytes BytesOf(const ip::address& address) {
  return address.is_v4() ? ip::make_address_v6(ip::v4_mapped, address.to_v4()).to_bytes()
                         : address.to_v6().to_bytes();
}

bool Holds(const Network& network, const Bytes& address) {
  for (int bit = 0; bit < network.prefix_bits; bit += 8) {
    const int left = std::min(8, network.prefix_bits - bit);
    const auto mask = static_cast<unsigned char>(0xff << (8 - left));
    if (((network.address[bit / 8] ^ address[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

// Boost reads up to a zero byte, and takes an IPv6 address with the name of one of our interfaces.
absl::optional<ip::address> ParseAddress(absl::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isxdigit(c) || c == '.' || c == ':';
  });
  if (!plain) return absl::nullopt;
  boost::system::error_code error;
  const ip::address address = ip::make_address(std::string(text), error);
  if (error) return absl::nullopt;
  return address;
}

// Decimal digits alone, without zeros in front.
absl::optional<int> ParsePrefix(absl::string_view text) {
  int bits = 0;
  if (!absl::SimpleAtoi(text, &bits) || absl::StrCat(bits) != text) return absl::nullopt;
  return bits;
}

absl::StatusOr<Network> ParseNetwork(absl::string_view text) {
  const size_t slash = text.find('/');
  const absl::optional<ip::address> address = ParseAddress(text.substr(0, slash));
  const int width = address.has_value() && address->is_v4() ? 32 : 128;
  const absl::optional<int> bits =
      slash == absl::string_view::npos ? width : ParsePrefix(text.substr(slash + 1));
  if (!address.has_value() || !bits.has_value() || *bits < 0 || *bits > width) {
    return status::Error(
        absl::StatusCode::kInvalidArgument, "INVALID_NETWORK",
        absl::StrCat("is '", text, "'; expected an address or a network, e.g. `10.0.0.0/8`"));
  }
  return Network{BytesOf(*address), *bits + 128 - width};
}

}  // namespace

struct ClientAddresses::Networks {
  std::vector<Network> all;
};

ClientAddresses::ClientAddresses() : networks_(std::make_shared<Networks>()) {}

absl::StatusOr<ClientAddresses> ClientAddresses::Parse(const std::vector<std::string>& networks) {
  if (networks.size() > kMaxNetworks) {
    return status::Error(
        absl::StatusCode::kInvalidArgument, "TOO_MANY_NETWORKS",
        absl::StrCat("has ", networks.size(), " entries; expected at most ", kMaxNetworks));
  }
  auto parsed = std::make_shared<Networks>();
  for (const std::string& text : networks) {
    const absl::StatusOr<Network> network = ParseNetwork(text);
    if (!network.ok()) return network.status();
    parsed->all.push_back(*network);
  }
  ClientAddresses addresses;
  addresses.networks_ = std::move(parsed);
  return addresses;
}

bool ClientAddresses::Contain(absl::string_view address) const {
  const absl::optional<ip::address> parsed = ParseAddress(address);
  if (!parsed.has_value()) return false;
  const Bytes bytes = BytesOf(*parsed);
  // 127.0.0.0/8 and ::1.
  const Network loopback{BytesOf(ip::make_address_v4("127.0.0.0")), 96 + 8};
  if (parsed->is_loopback() || Holds(loopback, bytes)) return true;
  return std::any_of(networks_->all.begin(), networks_->all.end(),
                     [&](const Network& network) { return Holds(network, bytes); });
}

}  // namespace capstan::metrics
