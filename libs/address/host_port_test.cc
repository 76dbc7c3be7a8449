#include "libs/address/host_port.h"

#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace capstan::address {
namespace {

using Kind = HostPort::Kind;

TEST(HostPortTest, AddressesAndNamesAreRead) {
  struct Case {
    std::string text;
    Kind kind;
    std::string host;
    int port;
  };
  const std::string longest = std::string(249, 'a') + ".org";
  for (const Case& one : {Case{"10.0.0.1:80", Kind::kIpv4, "10.0.0.1", 80},
                          Case{"[fd00::7]:65535", Kind::kIpv6, "fd00::7", 65535},
                          Case{"[::ffff:10.0.0.1]:1", Kind::kIpv6, "::ffff:10.0.0.1", 1},
                          Case{"node-7.example.org:443", Kind::kName, "node-7.example.org", 443},
                          Case{"example.org.:443", Kind::kName, "example.org.", 443},
                          Case{"127.evil.example:1", Kind::kName, "127.evil.example", 1},
                          Case{"4e:0", Kind::kName, "4e", 0},
                          Case{longest + ":65535", Kind::kName, longest, 65535}}) {
    const auto parsed = ParseHostPort(one.text);
    ASSERT_TRUE(parsed.has_value()) << one.text;
    EXPECT_EQ(parsed->kind, one.kind) << one.text;
    EXPECT_EQ(parsed->host, one.host);
    EXPECT_EQ(parsed->port, one.port);
  }
  EXPECT_EQ(ParseHostPort("1.2.3.4:1")->bytes, "\1\2\3\4");
  EXPECT_EQ(ParseHostPort("[::1]:1")->bytes, std::string(15, '\0') + '\1');
  EXPECT_EQ(ParseHostPort("h:1")->bytes, "");
}

TEST(HostPortTest, WhatIsNoneIsRefused) {
  for (const absl::string_view text : {absl::string_view(""),
                                       absl::string_view(":"),
                                       absl::string_view(":80"),
                                       absl::string_view("h"),
                                       absl::string_view("h:"),
                                       absl::string_view("10.0.0.1"),
                                       absl::string_view("h:65536"),
                                       absl::string_view("h:-1"),
                                       absl::string_view("h:+1"),
                                       absl::string_view("h: 1"),
                                       absl::string_view("h:1 "),
                                       absl::string_view("h:000001"),
                                       absl::string_view("h:0x1"),
                                       absl::string_view("fd00::7:1"),
                                       absl::string_view("::1"),
                                       absl::string_view("[]:1"),
                                       absl::string_view("[::1:1"),
                                       absl::string_view("::1]:1"),
                                       absl::string_view("[127.0.0.1]:1"),
                                       absl::string_view("[h]:1"),
                                       absl::string_view("[::1%lo]:1"),
                                       absl::string_view("a b:1"),
                                       absl::string_view("u@h:1"),
                                       absl::string_view("h/p:1"),
                                       absl::string_view("http://h:1"),
                                       absl::string_view("h_1:1"),
                                       absl::string_view("h\n:1"),
                                       absl::string_view("127.1:1"),
                                       absl::string_view("10.0.0.300:1"),
                                       absl::string_view("2130706433:1"),
                                       absl::string_view("0x7f000001:1"),
                                       absl::string_view("127.0.0.1.:1"),
                                       absl::string_view("a.0x:1"),
                                       absl::string_view("..:1"),
                                       absl::string_view("127.0.0.1\0.h:1", 14),
                                       absl::string_view("[::1\0]:1", 8)}) {
    EXPECT_FALSE(ParseHostPort(text).has_value()) << text;
    EXPECT_FALSE(IsLoopback(text)) << text;
    EXPECT_FALSE(IsUnspecified(text)) << text;
  }
  EXPECT_FALSE(ParseHostPort(std::string(254, 'a') + ":1").has_value());
}

TEST(HostPortTest, LoopbackIsWhatReachesTheOwnMachineOnly) {
  for (const char* text :
       {"127.0.0.1:1", "127.9.0.1:1", "127.255.255.255:0", "[::1]:1", "[0:0:0:0:0:0:0:1]:1",
        "[0000::0001]:1", "[::ffff:127.0.0.1]:1", "[::FFFF:7f00:1]:1", "[::ffff:7f09:1]:1",
        "localhost:1", "LocalHost:1"}) {
    EXPECT_TRUE(IsLoopback(text)) << text;
  }
  for (const char* text :
       {"127.evil.example:1", "127.0.0.1.example:1", "localhost.example:1", "xlocalhost:1",
        "128.0.0.1:1", "126.255.255.255:1", "[::2]:1", "[127::1]:1", "[::ffff:128.0.0.1]:1",
        "[fe80::1]:1", "0.0.0.0:1", "[::]:1", "[1::1]:1", "[::127.0.0.1]:1", "localhost",
        "127.0.0.1", "[::1]"}) {
    EXPECT_FALSE(IsLoopback(text)) << text;
  }
}

TEST(HostPortTest, UnspecifiedIsWhatNobodyCanDial) {
  for (const char* text : {"0.0.0.0:1", "[::]:1", "[0:0::0]:1", "[::ffff:0.0.0.0]:1"}) {
    EXPECT_TRUE(IsUnspecified(text)) << text;
  }
  for (const char* text : {"0.0.0.1:1", "[::1]:1", "h:1", "[::ffff:0.0.0.1]:1"}) {
    EXPECT_FALSE(IsUnspecified(text)) << text;
  }
}

}  // namespace
}  // namespace capstan::address
