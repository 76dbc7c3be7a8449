#include "libs/kube/transport/endpoint.h"

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace capstan::kube {
namespace {

TEST(EndpointTest, IsParsed) {
  const Endpoint plain = ParseEndpoint("https://api.example").value();
  EXPECT_TRUE(plain.tls);
  EXPECT_EQ(plain.Authority(), "api.example:443");
  EXPECT_EQ(plain.prefix, "");
  const Endpoint six = ParseEndpoint("http://[::1]:8080/a/b/").value();
  EXPECT_FALSE(six.tls);
  EXPECT_EQ(six.host, "::1");
  EXPECT_EQ(six.Authority(), "[::1]:8080");
  EXPECT_EQ(six.prefix, "/a/b");
}

TEST(EndpointTest, RefusesWhatIsNoServer) {
  for (const std::string url :
       {"", "api.example", "ftp://api", "https://", "https://:443", "https://a:0",
        "https://a:65536", "https://a:x", "https://a:1:2", "https://user@a", "https://a b",
        "https://[::1", "https://::1", "https://[1.2.3.4]", "https://a/?q", "https://a/#f",
        "https://a/x y", "https://a\r\nb"}) {
    EXPECT_EQ(ParseEndpoint(url).status().code(), absl::StatusCode::kInvalidArgument) << url;
  }
}

TEST(EndpointTest, IsNamedByNoProxy) {
  const Endpoint name = ParseEndpoint("https://api.Example.com:6443").value();
  const Endpoint address = ParseEndpoint("https://10.1.2.3").value();
  const Endpoint six = ParseEndpoint("https://[fd00::1]").value();
  for (const std::string list : {"*", "x, example.com", "EXAMPLE.com:6443", ".example.com",
                                 "*.example.com", "api.example.com"}) {
    EXPECT_TRUE(BypassesProxy(list, name)) << list;
  }
  for (const std::string list : {"", ",", "xample.com", "example.com:443", ".api.example.com",
                                 "other.api.example.com", "com.", "10.0.0.0/8"}) {
    EXPECT_FALSE(BypassesProxy(list, name)) << list;
  }
  for (const std::string list :
       {"10.1.2.3", "10.1.2.3:443", "10.0.0.0/8", "10.1.2.2/31", "0.0.0.0/0"}) {
    EXPECT_TRUE(BypassesProxy(list, address)) << list;
  }
  for (const std::string list :
       {"10.1.2.4", "10.1.2.3:80", "10.1.2.2/32", "10.0.0.0/x", "10.0.0.0/33", "1.2.3", "2.3"}) {
    EXPECT_FALSE(BypassesProxy(list, address)) << list;
  }
  EXPECT_TRUE(BypassesProxy("fd00:0::1", six));
  EXPECT_TRUE(BypassesProxy("[fd00::1]:443", six));
  EXPECT_TRUE(BypassesProxy("fd00::/8", six));
  EXPECT_FALSE(BypassesProxy("fe00::/8,0.0.0.0/0", six));
}

}  // namespace
}  // namespace capstan::kube
