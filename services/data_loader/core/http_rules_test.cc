#include "services/data_loader/core/http_rules.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "libs/status/error.h"

namespace capstan::data_loader {
namespace {

TEST(HttpRulesTest, ParsesAndShowsUrls) {
  const auto url = ParseHttpUrl("HTTPS://Data.Example.com/a/b%20c?token=s3cret");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->ToString(), "https://data.example.com/a/b%20c?token=s3cret");
  EXPECT_EQ(url->Shown(), "https://data.example.com/a/b%20c");
  EXPECT_EQ(url->port, 443);
  EXPECT_EQ(ParseHttpUrl("http://h:8080")->ToString(), "http://h:8080/");
  EXPECT_EQ(ParseHttpUrl("http://[::1]:8080/a")->host, "[::1]");
  for (const char* bad :
       {"", "ftp://h/a", "http://", "http:///a", "http://u@h/a", "http://u:p@h/a", "http://h:0/a",
        "http://h:99999/a", "http://h/../a", "http://h/a/%2e%2E/b", "http://h/a%2fb",
        "http://h/./a", "http://h/a#f", "http://h/a b", "http://h/a\nb", "http://h\\a",
        "http://[::g]/a", "http://h/%5c", "http://h/a%00"}) {
    EXPECT_FALSE(ParseHttpUrl(bad).ok()) << bad;
  }
  for (const char* secret : {"http://u:hunter2@h/", "http://u:hunter2@h/a b", "ftp://u:hunter2@h/",
                             "http://u:hunter2@h/../a", "http://u:hunter2/@h"}) {
    EXPECT_FALSE(absl::StrContains(ParseHttpUrl(secret).status().message(), "hunter2")) << secret;
  }
  EXPECT_FALSE(absl::StrContains(ParseHttpUrl("ftp://h/?s3cret").status().message(), "s3cret"));
}

TEST(HttpRulesTest, ResolvesReferencesAndObjects) {
  const HttpUrl base = *ParseHttpUrl("https://h/data/list.index?x=1");
  EXPECT_EQ(ResolveHttpUrl(base, "a/b")->ToString(), "https://h/data/a/b");
  EXPECT_EQ(ResolveHttpUrl(base, "/c?q")->ToString(), "https://h/c?q");
  EXPECT_EQ(ResolveHttpUrl(base, "//o/c")->ToString(), "https://o/c");
  EXPECT_EQ(ResolveHttpUrl(base, "http://o/c")->ToString(), "http://o/c");
  EXPECT_FALSE(ResolveHttpUrl(base, "../c").ok());
  EXPECT_FALSE(ResolveHttpUrl(base, "file:///etc/passwd").ok());
  EXPECT_EQ(ObjectUrl(*ParseHttpUrl("http://h/d/"), "a b/ü?#").ToString(),
            "http://h/d/a%20b/%C3%BC%3F%23");
}

TEST(HttpRulesTest, AllowsOnlyWhatLiesBelowAPrefix) {
  const std::vector<std::string> prefixes = {"https://h/data/", "http://o:81", "nonsense"};
  for (const char* good : {"https://h/data/a", "https://h/data/", "https://h/data",
                           "https://h:443/data/a", "http://o:81/x"}) {
    EXPECT_TRUE(IsAllowedUrl(*ParseHttpUrl(good), prefixes)) << good;
  }
  for (const char* bad : {"http://h/data/a", "https://h/database", "https://h/",
                          "https://hh/data/a", "https://h:444/data/a", "http://o/x"}) {
    EXPECT_FALSE(IsAllowedUrl(*ParseHttpUrl(bad), prefixes)) << bad;
  }
  EXPECT_FALSE(IsAllowedUrl(*ParseHttpUrl("https://h/"), {}));
}

TEST(HttpRulesTest, KnowsAddressesOfTheMachineAndItsCloud) {
  for (const char* special :
       {"127.0.0.1", "127.9.9.9", "0.0.0.0", "169.254.169.254", "224.0.0.1", "255.255.255.255",
        "::1", "::", "fe80::1", "febf::1", "ff02::1", "fd00:ec2::254", "::ffff:127.0.0.1",
        "::ffff:169.254.169.254", "", "h"}) {
    EXPECT_TRUE(IsSpecialAddress(special)) << special;
  }
  for (const char* plain :
       {"10.0.0.1", "192.168.1.1", "8.8.8.8", "2001:db8::1", "fd00::1", "::ffff:10.0.0.1"}) {
    EXPECT_FALSE(IsSpecialAddress(plain)) << plain;
  }
}

TEST(HttpRulesTest, ParsesContentRanges) {
  EXPECT_EQ(ParseContentRange("bytes 0-99/1000"), (ContentRange{0, 99, 1000}));
  EXPECT_EQ(ParseContentRange("bytes */0"), (ContentRange{0, -1, 0}));
  for (const char* bad :
       {"", "bytes 0-99", "bytes 0-99/*", "bytes 5-4/10", "bytes 0-10/10", "bytes -1-4/10",
        "items 0-1/2", "bytes 0-99999999999999999999/1", "bytes a-b/c"}) {
    EXPECT_FALSE(ParseContentRange(bad).has_value()) << bad;
  }
}

TEST(HttpRulesTest, TakesDigestsAndValidatorsFromHeaders) {
  const std::string sha(32, 'x');
  const std::string text = absl::Base64Escape(sha);
  EXPECT_EQ(Sha256FromHeaders({{"repr-digest", "sha-512=:AAAA:, sha-256=:" + text + ":"}}), sha);
  EXPECT_EQ(Sha256FromHeaders({{"digest", "md5=AAAA,SHA-256=" + text}}), sha);
  EXPECT_EQ(Sha256FromHeaders({{"digest", "sha-256=short"}}), "");
  EXPECT_EQ(Sha256FromHeaders({{"content-digest", "sha-256=:" + text + ":"}}), "")
      << "that of a part is not that of the object";
  EXPECT_EQ(ValidatorFromHeaders({{"etag", "\"a\""}, {"last-modified", "x"}}), "etag \"a\"");
  EXPECT_EQ(ValidatorFromHeaders({{"last-modified", "x"}}), "modified x");
  EXPECT_EQ(ValidatorFromHeaders({{"x-goog-hash", "crc32c=AAA="}}), "hash crc32c=AAA=");
  EXPECT_EQ(ValidatorFromHeaders({}), "");
  EXPECT_EQ(ConditionFor("etag \"a\""), (HttpHeaders{{"If-Match", "\"a\""}}));
  EXPECT_EQ(ConditionFor("etag W/\"a\""), HttpHeaders());
  EXPECT_EQ(ConditionFor("modified x"), (HttpHeaders{{"If-Unmodified-Since", "x"}}));
  EXPECT_EQ(ConditionFor("digest"), HttpHeaders());
}

TEST(HttpRulesTest, ParsesRetryAfter) {
  absl::Time now;
  ASSERT_TRUE(
      absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", "Sat, 01 Jan 2022 00:00:00 GMT", &now, nullptr));
  EXPECT_EQ(ParseRetryAfter("12", now), absl::Seconds(12));
  EXPECT_EQ(ParseRetryAfter("Sat, 01 Jan 2022 00:01:00 GMT", now), absl::Minutes(1));
  EXPECT_EQ(ParseRetryAfter("Fri, 31 Dec 2021 00:00:00 GMT", now), absl::ZeroDuration());
  EXPECT_FALSE(ParseRetryAfter("-1", now).has_value());
  EXPECT_FALSE(ParseRetryAfter("soon", now).has_value());
}

TEST(HttpRulesTest, ParsesIndexesAndNamesTheWrongLine) {
  const HttpUrl index = *ParseHttpUrl("https://h/d/list.index");
  EXPECT_TRUE(IsIndex(index));
  const std::string hex(64, 'a');
  const auto entries = ParseIndex(
      index, "# c\r\n\r\na/b.npz 12 sha256:" + hex + "\r\n  c 0 -\nsub/d%20e?t=1\nhttps://o/f\n");
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 4u);
  EXPECT_EQ((*entries)[0].url.ToString(), "https://h/d/a/b.npz");
  EXPECT_EQ(*(*entries)[0].size_bytes, 12);
  EXPECT_EQ((*entries)[0].sha256, std::string(32, '\xaa'));
  EXPECT_EQ((*entries)[1].path, "c");
  EXPECT_EQ((*entries)[2].path, "d e");
  EXPECT_EQ((*entries)[2].url.ToString(), "https://h/d/sub/d%20e?t=1");
  EXPECT_EQ((*entries)[3].path, "f");
  for (const char* bad :
       {"\na b\n", "\na -1 -\n", "\na x -\n", "\na 1 md5:00\n", "\n../a 1 -\n", "\n/a 1 -\n",
        "\nhttps://o/\n", "\nfile:///etc/passwd\n", "\na%zz\n", "\na%0ab\n"}) {
    const absl::Status refused = ParseIndex(index, bad).status();
    EXPECT_EQ(status::Reason(refused), "INVALID_INDEX") << bad;
    EXPECT_TRUE(absl::StrContains(refused.message(), "line 2")) << refused;
  }
}

}  // namespace
}  // namespace capstan::data_loader
