// data_loader is killed (SIGKILL) at each part of a load: the load goes on with what is missing,
// and what was fetched is not fetched again, by the bytes that the server counts.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "integration/loading/loading_site.h"
#include "integration/monitoring/http_request.h"

namespace capstan::integration {
namespace {

namespace pb = ::capstan::dataloader::v1;

class KillsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto unable = TestPlatform::Unable()) GTEST_SKIP() << *unable;
    site_ = std::make_unique<LoadingSite>();
  }
  void AwaitParts(const std::string& load, int64_t parts) {
    EXPECT_TRUE(site_->platform().Await([&] { return site_->PartsKept(load) == parts; }))
        << site_->PartsKept(load) << " parts are kept, not " << parts;
  }

  std::unique_ptr<LoadingSite> site_;
};

// One load, killed once for each part that it has come to.
TEST_F(KillsTest, KilledAtEachPartALoadFetchesEachByteOnce) {
  constexpr int kParts = 7;
  const std::string bytes = LoadingSite::Bytes(kParts * kPartBytes - 12345, 1);
  site_->Serve("object", bytes);
  site_->Serve("other", "abc");
  site_->Expect({{"object", bytes}});
  site_->SetFault("object", R"({"holds": 0})");
  const std::string load = site_->StartNew("d", site_->web() + "object");
  for (int part = 0; part < kParts; ++part) {
    AwaitParts(load, part);
    EXPECT_FALSE(site_->Has({{"object", bytes}}));
    // The next life gets one part more. Stopped, this one asks for nothing more.
    site_->platform().Signal("data_loader", SIGSTOP);
    EXPECT_EQ(HttpGet(site_->web() + "other").status, 200);
    site_->SetFault("object", absl::StrCat(R"({"holds": 1, "round": )", part + 1, "}"));
    site_->platform().KillAndAwait("data_loader");
  }
  // All are there but for the check and the publishing.
  const pb::DataLoad ended = site_->Await(load);
  EXPECT_EQ(ended.state(), pb::DataLoad::STATE_SUCCEEDED) << ended.message();
  EXPECT_EQ(site_->Served("object"), static_cast<int64_t>(bytes.size()));
  EXPECT_TRUE(site_->Has({{"object", bytes}}));
}

// In the middle of parts: what was under way is fetched again, at most what was under way.
TEST_F(KillsTest, KilledInMidPartALoadFetchesOnlyTheseAgain) {
  constexpr int kParts = 6;
  constexpr int64_t kBegun = 1 << 20;
  for (const int kept : {0, 1, 3, 5}) {
    const std::string name = absl::StrCat("object-", kept);
    const std::string bytes = LoadingSite::Bytes(kParts * kPartBytes, 10 + kept);
    site_->Serve(name, bytes);
    site_->Expect({{name, bytes}});
    site_->SetFault(name, absl::StrCat(R"({"holds": )", kept, R"(, "first": )", kBegun, "}"));
    const std::string load = site_->StartNew(absl::StrCat("d", kept), site_->web() + name);
    AwaitParts(load, kept);
    const int64_t under_way = std::min(kPartsAtOnce, kParts - kept) * kBegun;
    site_->platform().KillAndAwait("data_loader");
    site_->SetFault(name, "");
    const pb::DataLoad ended = site_->Await(load);
    EXPECT_EQ(ended.state(), pb::DataLoad::STATE_SUCCEEDED) << ended.message();
    EXPECT_TRUE(site_->Has({{name, bytes}}));
    const int64_t again = site_->Served(name) - static_cast<int64_t>(bytes.size());
    EXPECT_GE(again, 0);
    EXPECT_LE(again, under_way);
    std::printf("%d parts kept: %d KiB fetched again\n", kept, static_cast<int>(again >> 10));
  }
}

// While it was away the source became another: what was kept of it is of no use to anyone.
TEST_F(KillsTest, WhatChangedWhileItWasAwayIsNotMixed) {
  const std::string before = LoadingSite::Bytes(5 * kPartBytes, 1);
  const std::string after = LoadingSite::Bytes(5 * kPartBytes, 2);
  site_->Serve("object", before);
  site_->SetFault("object", R"({"holds": 2})");
  const std::string load = site_->StartNew("d", site_->web() + "object");
  AwaitParts(load, 2);
  site_->platform().KillAndAwait("data_loader");
  site_->Serve("object", after);
  site_->SetFault("object", "");
  const pb::DataLoad ended = site_->Await(load);
  EXPECT_EQ(ended.reason(), "SOURCE_CHANGED") << ended.message();
  site_->Expect({{"object", after}});
  const pb::DataLoad again = site_->Await(site_->Start("d", /*again=*/true));
  EXPECT_EQ(again.state(), pb::DataLoad::STATE_SUCCEEDED) << again.message();
  EXPECT_TRUE(site_->Has({{"object", after}}));
}

}  // namespace
}  // namespace capstan::integration
