// A web server that changes, tears, lies and never ends: each load fails for the right reason,
// names the object, and publishes nothing; what can be mended is mended, and read once.
#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "integration/loading/loading_site.h"
#include "libs/digest/sha256.h"

namespace capstan::integration {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr size_t kSmall = 1 << 20;
constexpr size_t kTwoParts = kPartBytes + (1 << 20);
// More parts than are fetched at once.
constexpr size_t kLarge = (kPartsAtOnce + 1) * kPartBytes;

struct SourceFault {
  // Of the test, and of the object.
  const char* name;
  size_t size;
  // As fault_server.py has it.
  const char* fault;
  // Why the load fails; empty if it does not.
  const char* reason;
  // Whether an index gives the object's size and digest.
  bool indexed = false;
  // Of the index itself.
  const char* index_fault = "";
};

constexpr SourceFault kFaults[] = {
    {"Nothing", kLarge, "", ""},
    {"ChangedInMidLoad", kLarge, R"({"after": 1, "becomes": "other"})", "SOURCE_CHANGED"},
    {"ChangedByAServerDeafToConditions", kLarge,
     R"({"after": 1, "becomes": "other", "deaf": true})", "SOURCE_CHANGED"},
    {"ChangedUnderTheSameETag", kLarge, R"({"becomes": "other", "under": "same"})",
     "DIGEST_MISMATCH", true},
    {"ChangedInSizeUnderTheSameETag", kLarge,
     R"({"after": 1, "becomes": "short", "under": "same"})", "SOURCE_CHANGED"},
    {"OtherThanItsIndexSays", kSmall, R"({"becomes": "short"})", "SOURCE_CHANGED", true},
    {"Truncated", kTwoParts, R"({"stops": 4000000})", "RETRIES_EXHAUSTED"},
    {"TruncatedAtOnce", kSmall, R"({"stops": 0})", "RETRIES_EXHAUSTED"},
    {"TornFiveTimes", kTwoParts, R"({"stops": 3000000, "times": 5})", ""},
    {"Corrupted", kSmall, R"({"flips": 500000})", "DIGEST_MISMATCH", true},
    {"Vanished", kLarge, R"({"after": 1, "gone": true})", "OBJECT_NOT_FOUND"},
    {"NeverThere", kSmall, R"({"gone": true})", "OBJECT_NOT_FOUND"},
    {"Endless", kTwoParts, R"({"endless": true})", "LYING_ANSWER"},
    {"EndlessWithoutSize", kSmall, R"({"unsized": true})", "SIZE_UNKNOWN"},
    {"EndlessIndex", kSmall, "", "INVALID_INDEX", true, R"({"unsized": true})"},
    {"SilentInTheMiddle", kSmall, R"({"stops": 500000, "stalls": true})", "RETRIES_EXHAUSTED"},
    {"RangeLies", kTwoParts, R"({"range_lies": 1})", "LYING_ANSWER"},
    {"RangeLiesAndBytesToo", kTwoParts, R"({"shifted": 1})", "DIGEST_MISMATCH", true},
    {"LengthLies", kTwoParts, R"({"total_lies": 1})", "SOURCE_CHANGED"},
    {"LengthLiesByLess", kLarge, R"({"total_lies": -1})", "SOURCE_CHANGED"},
    {"WholeInsteadOfARange", kTwoParts, R"({"whole": true})", "LYING_ANSWER"},
    {"SaysItIsCompressed", kSmall, R"({"encoded": true})", "SOURCE_ENCODED"},
    {"RedirectsForEver", kSmall, R"({"redirects": true})", "TOO_MANY_REDIRECTS"},
    {"Forbidden", kLarge, R"({"after": 1, "status": 403})", "HTTP_403"},
    {"Overloaded", kSmall, R"({"status": 503})", "RETRIES_EXHAUSTED"},
    {"OverloadedThreeTimes", kSmall, R"({"status": 503, "times": 3})", ""},
    {"AskedToComeAgainInAnHour", kSmall, R"({"status": 503, "retry_after": 3600})",
     "RETRIES_EXHAUSTED"},
};

// Ids have no capitals.
std::string IdOf(const std::string& name) {
  std::string id;
  for (const char c : name) {
    if (absl::ascii_isupper(static_cast<unsigned char>(c)) && !id.empty()) id += '-';
    id += absl::ascii_tolower(static_cast<unsigned char>(c));
  }
  return id;
}

class SourceFaultsTest : public ::testing::TestWithParam<SourceFault> {
 protected:
  // All loads are begun at once, and wait for each other as those of many Jobs do.
  static void SetUpTestSuite() {
    if (TestPlatform::Unable().has_value()) return;
    site_ = new LoadingSite();
    site_->Serve("other", LoadingSite::Bytes(kLarge, 1));
    site_->Serve("short", LoadingSite::Bytes(kLarge - 1, 2));
    uint64_t seed = 2;
    for (const SourceFault& row : kFaults) {
      const std::string bytes = LoadingSite::Bytes(row.size, ++seed);
      site_->Serve(row.name, bytes);
      site_->SetFault(row.name, row.fault);
      if (*row.reason == '\0') site_->Expect({{row.name, bytes}});
      site_->Serve(absl::StrCat(row.name, ".index"),
                   absl::StrCat(row.name, " ", row.size,
                                " sha256:", absl::BytesToHexString(Sha256::Of(bytes)), "\n"));
      site_->SetFault(absl::StrCat(row.name, ".index"), row.index_fault);
      loads_[row.name] = site_->StartNew(
          IdOf(row.name), absl::StrCat(site_->web(), row.name, row.indexed ? ".index" : ""));
    }
  }
  static void TearDownTestSuite() {
    delete site_;
    site_ = nullptr;
  }
  void SetUp() override {
    if (const auto unable = TestPlatform::Unable()) GTEST_SKIP() << *unable;
  }

  static LoadingSite* site_;
  static std::map<std::string, std::string> loads_;
};

LoadingSite* SourceFaultsTest::site_ = nullptr;
std::map<std::string, std::string> SourceFaultsTest::loads_;

TEST_P(SourceFaultsTest, EndsAsItMust) {
  const SourceFault& row = GetParam();
  const pb::DataLoad load = site_->Await(loads_[row.name]);
  EXPECT_EQ(load.reason(), row.reason) << load.message();
  if (*row.reason != '\0') {
    EXPECT_EQ(load.state(), pb::DataLoad::STATE_FAILED);
    EXPECT_TRUE(absl::StrContains(load.message(), row.name)) << load.message();
    EXPECT_EQ(load.version(), "");
    return;
  }
  EXPECT_EQ(load.state(), pb::DataLoad::STATE_SUCCEEDED);
  // However often it was torn.
  EXPECT_EQ(site_->Served(row.name), static_cast<int64_t>(row.size));
  EXPECT_EQ(load.source_bytes_read(), static_cast<int64_t>(row.size));
}

INSTANTIATE_TEST_SUITE_P(Web, SourceFaultsTest, ::testing::ValuesIn(kFaults),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace capstan::integration
