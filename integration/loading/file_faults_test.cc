// A `file://` source that somebody cuts short or takes away while it is loaded: the load says which
// object it was, nothing is published, and once the source is whole again a load of it works.
#include <sched.h>
#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "integration/loading/loading_site.h"
#include "integration/platform/test_platform.h"
#include "libs/safe_path/folder_names.h"
#include "libs/time/clock.h"
#include "libs/time/system_clock.h"
#include "proto/capstan/dataloader/v1/dataset.pb.h"

namespace capstan::integration {
namespace {

namespace fs = std::filesystem;
namespace pb = ::capstan::dataloader::v1;

// More than are read while one is being kept.
constexpr int kParts = 20;

class FileFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto unable = TestPlatform::Unable()) GTEST_SKIP() << *unable;
    site_ = std::make_unique<LoadingSite>();
  }

  std::string Folder() const { return site_->bucket() + "/source"; }
  void WriteAll(const Files& files) const {
    fs::create_directories(Folder());
    for (const auto& [name, bytes] : files) {
      std::ofstream(absl::StrCat(Folder(), "/", name), std::ios::binary) << bytes;
    }
  }
  // Stops data_loader when some parts of the load are kept, and others are not. False, with a
  // failure of the test, if the load was too fast for that.
  bool StopInMidLoad(const std::string& load) {
    const BootTime end = clock_.Read().boot + absl::Seconds(60);
    while (site_->PartsKept(load) == 0 && clock_.Read().boot < end) sched_yield();
    site_->platform().Signal("data_loader", SIGSTOP);
    const int64_t kept = site_->PartsKept(load);
    std::printf("stopped with %d of %d parts\n", static_cast<int>(kept), kParts);
    EXPECT_GT(kept, 0);
    EXPECT_LT(kept, kParts);
    return kept > 0 && kept < kParts;
  }

  const SystemClock clock_;
  std::unique_ptr<LoadingSite> site_;
};

TEST_F(FileFaultsTest, WhatIsCutOrTakenAwayInMidLoadIsNamed) {
  struct Fault {
    const char* what;
    std::function<void(const std::string& path)> make;
    std::set<std::string> reasons;
  };
  const std::set<std::string> cut = {"SOURCE_CHANGED", "SOURCE_TRUNCATED"};
  const std::vector<Fault> faults = {
      {"cut to nothing", [](const std::string& path) { fs::resize_file(path, 0); }, cut},
      {"cut in mid part",
       [](const std::string& path) { fs::resize_file(path, kParts / 2 * kPartBytes + 12345); },
       cut},
      {"cut by its last byte",
       [](const std::string& path) { fs::resize_file(path, kParts * kPartBytes - 1); }, cut},
      {"removed", [](const std::string& path) { fs::remove(path); }, {"OBJECT_NOT_FOUND"}},
      {"removed with its folder",
       [](const std::string& path) { fs::remove_all(fs::path(path).parent_path()); },
       {"OBJECT_NOT_FOUND"}},
  };
  int number = 0;
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.what);
    const std::string dataset = absl::StrCat("d", ++number);
    const Files files = {
        {"big", LoadingSite::Bytes(kParts * kPartBytes, static_cast<uint64_t>(number))},
        {"small", "small"}};
    WriteAll(files);
    site_->Expect(files);
    const std::vector<std::string> before = FolderNames(site_->site() + "/versions");
    const std::string load =
        site_->StartNew(dataset, absl::StrCat("file://", Folder(), "/"), {"big", "small"});
    const bool in_time = StopInMidLoad(load);
    fault.make(Folder() + "/big");
    site_->platform().Signal("data_loader", SIGCONT);
    ASSERT_TRUE(in_time);
    const pb::DataLoad failed = site_->Await(load);
    std::printf("%s: %s: %s\n", fault.what, failed.reason().c_str(), failed.message().c_str());
    EXPECT_EQ(failed.state(), pb::DataLoad::STATE_FAILED);
    EXPECT_EQ(fault.reasons.count(failed.reason()), 1u) << failed.reason();
    EXPECT_TRUE(absl::StrContains(failed.message(), absl::StrCat("'file://", Folder(), "/big'")))
        << failed.message();
    EXPECT_EQ(failed.version(), "");
    EXPECT_FALSE(site_->Has(files));
    EXPECT_EQ(FolderNames(site_->site() + "/versions"), before);
    EXPECT_TRUE(site_->platform().Await([&] { return site_->Staged().empty(); }));
    // Whole again.
    WriteAll(files);
    const pb::DataLoad again = site_->Await(site_->Start(dataset, /*again=*/true));
    EXPECT_EQ(again.state(), pb::DataLoad::STATE_SUCCEEDED) << again.message();
    EXPECT_TRUE(site_->Has(files));
  }
}

}  // namespace
}  // namespace capstan::integration
