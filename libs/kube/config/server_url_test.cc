// If these fail, requests and credentials go to another host than the kubeconfig says.
#include "libs/kube/config/server_url.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace capstan::kube {
namespace {

TEST(ServerUrlTest, ReadsServers) {
  const std::vector<std::pair<const char*, ServerUrl>> table = {
      {"https://k", {true, "k", 443, ""}},
      {"HTTPS://10.0.0.1:6443/", {true, "10.0.0.1", 6443, ""}},
      {"https://[fd00::1]:6443/a/b/", {true, "fd00::1", 6443, "/a/b"}},
      {"https://[::1]", {true, "::1", 443, ""}},
      {"http://localhost:8001", {false, "localhost", 8001, ""}},
  };
  for (const auto& [text, expected] : table) {
    const auto url = ParseServerUrl(text);
    ASSERT_TRUE(url.has_value()) << text;
    EXPECT_EQ(*url, expected) << text;
  }
  for (const char* text :
       {"", "k", "k:6443", "ftp://k", "https://", "https://u@k", "https://k?x", "https://k#x",
        "https://k/../x", "https://k//x", "https://k:0", "https://k:x", "https://k x",
        "https://k\n", "https://::1", "https://k\\@x"}) {
    EXPECT_FALSE(ParseServerUrl(text).has_value()) << text;
  }
}

TEST(ServerUrlTest, KnowsProxies) {
  for (const char* text : {"http://p:3128", "https://u:w@p", "socks5://[::1]:1080/"}) {
    EXPECT_TRUE(IsProxyUrl(text)) << text;
  }
  for (const char* text : {"p:3128", "socks4://p", "http://p/x", "http://a@b@p", "http://"}) {
    EXPECT_FALSE(IsProxyUrl(text)) << text;
  }
}

}  // namespace
}  // namespace capstan::kube
