#include "libs/metrics/client_addresses.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
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

absl::StatusOr<Network> ParseNetwork(const std::string& text) {
  const size_t slash = text.find('/');
  boost::system::error_code error;
  const ip::address address = ip::make_address(text.substr(0, slash), error);
  const int width = address.is_v4() ? 32 : 128;
  int bits = width;
  if (error || (slash != std::string::npos &&
                (!absl::SimpleAtoi(text.substr(slash + 1), &bits) || bits < 0 || bits > width))) {
    return status::Error(
        absl::StatusCode::kInvalidArgument, "INVALID_NETWORK",
        absl::StrCat("is '", text, "'; expected an address or a network, e.g. `10.0.0.0/8`"));
  }
  return Network{BytesOf(address), bits + 128 - width};
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
  boost::system::error_code error;
  const ip::address parsed = ip::make_address(std::string(address), error);
  if (error) return false;
  const Bytes bytes = BytesOf(parsed);
  // 127.0.0.0/8 and ::1.
  const Network loopback{BytesOf(ip::make_address_v4("127.0.0.0")), 96 + 8};
  if (parsed.is_loopback() || Holds(loopback, bytes)) return true;
  return std::any_of(networks_->all.begin(), networks_->all.end(),
                     [&](const Network& network) { return Holds(network, bytes); });
}

}  // namespace capstan::metrics
