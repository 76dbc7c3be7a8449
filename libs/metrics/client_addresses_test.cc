#include "libs/metrics/client_addresses.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace capstan::metrics {
namespace {

using ::testing::HasSubstr;

TEST(ClientAddressesTest, LoopbackAloneByDefault) {
  const ClientAddresses addresses;
  EXPECT_TRUE(addresses.Contain("127.0.0.1"));
  EXPECT_TRUE(addresses.Contain("127.9.9.9"));
  EXPECT_TRUE(addresses.Contain("::1"));
  EXPECT_TRUE(addresses.Contain("::ffff:127.0.0.1"));
  EXPECT_FALSE(addresses.Contain("128.0.0.1"));
  EXPECT_FALSE(addresses.Contain("10.0.0.1"));
  EXPECT_FALSE(addresses.Contain("::2"));
  EXPECT_FALSE(addresses.Contain(""));
  EXPECT_FALSE(addresses.Contain("localhost"));
}

TEST(ClientAddressesTest, NamedNetworksToTheBit) {
  const auto addresses = ClientAddresses::Parse({"10.64.0.0/10", "192.0.2.7", "fd00:1::/33"});
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  for (const char* inside : {"10.64.0.1", "10.127.255.255", "192.0.2.7", "::ffff:192.0.2.7",
                             "fd00:1::1", "fd00:1:7fff::1", "127.0.0.1"}) {
    EXPECT_TRUE(addresses->Contain(inside)) << inside;
  }
  for (const char* outside : {"10.63.255.255", "10.128.0.0", "192.0.2.8", "fd00:1:8000::1"}) {
    EXPECT_FALSE(addresses->Contain(outside)) << outside;
  }
}

TEST(ClientAddressesTest, EverybodyIsAChoiceThatCanBeMade) {
  const auto v4 = ClientAddresses::Parse({"0.0.0.0/0"});
  ASSERT_TRUE(v4.ok());
  EXPECT_TRUE(v4->Contain("203.0.113.9"));
  EXPECT_FALSE(v4->Contain("2001:db8::1"));
}

TEST(ClientAddressesTest, WhatIsNoNetworkIsNamed) {
  for (const char* wrong : {"", "example.org", "10.0.0.0/33", "10.0.0.0/x", "10.0.0.0/-1", "::/129",
                            "10.0.0.0/", "10.0.0/8"}) {
    const auto addresses = ClientAddresses::Parse({wrong});
    EXPECT_THAT(std::string(addresses.status().message()), HasSubstr(wrong)) << wrong;
    EXPECT_FALSE(addresses.ok()) << wrong;
  }
  EXPECT_FALSE(ClientAddresses::Parse(std::vector<std::string>(65, "10.0.0.1")).ok());
}

}  // namespace
}  // namespace capstan::metrics
