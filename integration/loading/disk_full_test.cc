// The Site's file system is full: from the beginning, or in mid-load. The load fails with
// DISK_FULL, names the file, gives back its room, and goes well once there is some.
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "integration/loading/loading_site.h"
#include "libs/safe_path/safe_path.h"

namespace capstan::integration {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr int64_t kMiB = 1 << 20;

class DiskFullTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto unable = TestPlatform::Unable()) GTEST_SKIP() << *unable;
    site_ = std::make_unique<LoadingSite>("64m");
  }
  int64_t Free() const {
    struct statvfs info = {};
    statvfs(site_->site().c_str(), &info);
    return static_cast<int64_t>(info.f_bavail * info.f_frsize);
  }
  // Takes all room but so much.
  void FillBut(int64_t left) {
    const UniqueFd fd(open(Filler().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const int64_t more = Free() - left;
    const off_t end = lseek(fd.get(), 0, SEEK_END);
    if (more > 0) {
      ASSERT_EQ(posix_fallocate(fd.get(), end, more), 0);
    }
  }
  std::string Filler() const { return site_->site() + "/filler"; }

  std::unique_ptr<LoadingSite> site_;
};

TEST_F(DiskFullTest, TheLoadFailsByNameAndGivesItsRoomBack) {
  const int64_t room = Free();
  const std::string large = LoadingSite::Bytes(9 * kPartBytes, 1);
  site_->Serve("too-large", large);
  const pb::DataLoad failed =
      site_->Await(site_->StartNew("too-large", site_->web() + "too-large"));
  EXPECT_EQ(failed.state(), pb::DataLoad::STATE_FAILED);
  EXPECT_EQ(failed.reason(), "DISK_FULL") << failed.message();
  EXPECT_TRUE(absl::StrContains(failed.message(), "too-large")) << failed.message();
  EXPECT_TRUE(site_->Staged().empty());
  EXPECT_GE(Free(), room - kMiB);
  // What fits, fits.
  const std::string small = LoadingSite::Bytes(3 * kPartBytes, 2);
  site_->Serve("small", small);
  site_->Expect({{"small", small}});
  const pb::DataLoad good = site_->Await(site_->StartNew("small", site_->web() + "small"));
  EXPECT_EQ(good.state(), pb::DataLoad::STATE_SUCCEEDED) << good.message();
  EXPECT_TRUE(site_->Has({{"small", small}}));
}

TEST_F(DiskFullTest, FilledInMidLoadItFailsAndGoesWellOnceThereIsRoom) {
  const std::string bytes = LoadingSite::Bytes(5 * kPartBytes, 3);
  site_->Serve("object", bytes);
  site_->SetFault("object", R"({"holds": 2})");
  const std::string load = site_->StartNew("d", site_->web() + "object");
  ASSERT_TRUE(site_->platform().Await([&] { return site_->PartsKept(load) == 2; }));
  FillBut(kPartBytes);
  site_->SetFault("object", "");
  const pb::DataLoad failed = site_->Await(load);
  EXPECT_EQ(failed.reason(), "DISK_FULL") << failed.message();
  EXPECT_TRUE(absl::StrContains(failed.message(), "object")) << failed.message();
  EXPECT_FALSE(site_->Has({{"object", bytes}}));
  // Not a byte is free while it is asked for again.
  FillBut(0);
  const pb::DataLoad none = site_->Await(site_->Start("d", /*again=*/true));
  EXPECT_EQ(none.reason(), "DISK_FULL") << none.message();
  std::filesystem::remove(Filler());
  site_->Expect({{"object", bytes}});
  const pb::DataLoad good = site_->Await(site_->Start("d", /*again=*/true));
  EXPECT_EQ(good.state(), pb::DataLoad::STATE_SUCCEEDED) << good.message();
  EXPECT_TRUE(site_->Has({{"object", bytes}}));
}

}  // namespace
}  // namespace capstan::integration
