#include "services/data_loader/adapters/directory_site.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "libs/content/manifest.h"
#include "libs/digest/sha256.h"
#include "libs/status/error.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr char kUid[] = "0b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b";

class DirectorySiteTest : public ::testing::Test {
 protected:
  DirectorySiteTest() : strand_("test", &clock_) {
    std::string pattern = absl::StrCat(::testing::TempDir(), "/site.XXXXXX");
    base_ = ::mkdtemp(pattern.data());
    Reopen();
  }
  ~DirectorySiteTest() override { strand_.Stop(); }

  void Reopen() {
    site_.reset();
    auto site = DirectorySite::Open(base_ + "/site", LoadOptions{}, 1, Random(1), &strand_);
    ASSERT_TRUE(site.ok()) << site.status();
    site_ = *std::move(site);
    ASSERT_TRUE(site_->TakeOver().ok());
  }

  static void Write(const std::string& path, const std::string& content, mode_t mode = 0644) {
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, mode));
    ASSERT_TRUE(WriteAll(fd.get(), content, path).ok()) << path;
  }
  static std::string Read(const std::string& path) {
    UniqueFd fd(::open(path.c_str(), O_RDONLY));
    return *ReadAll(fd.get(), 1 << 20, path);
  }

  absl::StatusOr<StagedOutput> Copy(const std::string& directory, int64_t step) {
    pb::CommitOutputRequest request;
    request.set_job_uid(kUid);
    request.set_generation(1);
    request.set_checkpoint_step(step);
    request.set_staging_directory(directory);
    absl::Notification copied;
    absl::StatusOr<StagedOutput> result = absl::UnknownError("");
    site_->CopyOutput(request, [&](absl::StatusOr<StagedOutput> staged) {
      result = std::move(staged);
      copied.Notify();
    });
    copied.WaitForNotification();
    return result;
  }

  // The one thread has done what it was given before.
  void Settle() { Copy(base_ + "/nowhere", 1).status().IgnoreError(); }

  pb::Manifest BundleManifest() {
    pb::Manifest manifest;
    for (const auto& [path, content] :
         {std::pair("a.py", "print(1)"), std::pair("empty", ""), std::pair("z/b", "bb")}) {
      pb::Manifest::File& file = *manifest.add_files();
      file.set_path(path);
      file.set_size_bytes(static_cast<int64_t>(std::string(content).size()));
      file.set_sha256(Sha256::Of(content));
    }
    return manifest;
  }

  SystemClock clock_;
  ThreadStrand strand_;
  std::string base_;
  std::unique_ptr<DirectorySite> site_;
};

TEST_F(DirectorySiteTest, ReportsALoadOnTheStrand) {
  ASSERT_EQ(::mkdir((base_ + "/bucket").c_str(), 0755), 0);
  Write(base_ + "/bucket/a", "abc");
  site_.reset();
  site_ = *DirectorySite::Open(base_ + "/site",
                               LoadOptions{.allowed_source_roots = {base_}, .copy = {}, .http = {}},
                               1, Random(1), &strand_);
  absl::Notification done;
  absl::StatusOr<Published> result = absl::UnknownError("");
  int64_t total = 0;
  int told = 0;
  site_->SetLoadReports(
      Site::LoadReports{.planned =
                            [&](const std::string& load, int64_t bytes) {
                              total = bytes;
                              // Told again to whoever starts it again.
                              if (++told == 1) return site_->StartLoad({load, "", {}, 0});
                              site_->AdmitLoad(load, absl::OkStatus());
                            },
                        .progressed = [](const std::string&, int64_t, int64_t, double,
                                         absl::optional<absl::Duration>) {},
                        .publishing = [](const std::string&) {},
                        .done =
                            [&](const std::string&, absl::StatusOr<Published> published) {
                              result = std::move(published);
                              done.Notify();
                            }});
  site_->StartLoad({"projects/p/dataLoads/l", "file://" + base_ + "/bucket", {}, 0});
  done.WaitForNotification();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(total, 3);
  EXPECT_EQ(told, 2);
  EXPECT_EQ(Read(site_->VersionDirectory(result->manifest_digest) + "/a"), "abc");
  // What is noted of a load stays until that is stored which came of it.
  const std::string noted = base_ + "/site/staging/loads/l";
  site_->CollectLoads({"projects/p/dataLoads/l"});
  Settle();
  EXPECT_TRUE(std::filesystem::exists(noted));
  site_->ForgetLoad("projects/p/dataLoads/l");
  Settle();
  EXPECT_FALSE(std::filesystem::exists(noted));
  std::filesystem::create_directories(noted);
  site_->CollectLoads({"projects/p/dataLoads/other"});
  Settle();
  EXPECT_FALSE(std::filesystem::exists(noted));
  // What leaves is gone at once, and nothing of it stays.
  const std::string digest = result->manifest_digest;
  EXPECT_TRUE(site_->HasVersion(digest));
  EXPECT_TRUE(site_->OpenContent("versions/" + digest.substr(7), digest).ok());
  EXPECT_TRUE(site_->EvictVersion(digest).ok());
  EXPECT_FALSE(site_->HasVersion(digest));
  EXPECT_FALSE(site_->OpenContent("versions/" + digest.substr(7), digest).ok());
  EXPECT_TRUE(site_->EvictVersion(digest).ok());
  Reopen();
  EXPECT_TRUE(std::filesystem::is_empty(base_ + "/site/staging/evicted"));
  EXPECT_TRUE(std::filesystem::is_empty(base_ + "/site/versions"));
}

TEST_F(DirectorySiteTest, WhatAKilledProcessHasLeftIsGoneOnceAnotherTakesOver) {
  const std::string site = base_ + "/site/";
  const std::string job = site + "outputs/" + kUid;
  std::filesystem::create_directories(site + "versions/whole");
  std::filesystem::create_directories(job + "/g1-r0-s5-whole");
  // Killed once content was out of its place, or before it was in it.
  const std::vector<std::string> left = {
      site + "versions/gone.manifest", site + "bundles/gone.manifest",
      job + "/g1-r0-s5-gone.manifest",
      // Beside the place of one.
      site + "versions/.half.manifest.17.tmp", site + "bundles/.half.manifest.17.tmp",
      job + "/.g1-r0-s5-half.manifest.17.tmp"};
  const std::vector<std::string> whole = {site + "versions/whole.manifest",
                                          job + "/g1-r0-s5-whole.manifest"};
  for (const std::vector<std::string>& paths : {left, whole}) {
    for (const std::string& path : paths) Write(path, "x");
  }
  Reopen();
  for (const std::string& path : left) EXPECT_FALSE(std::filesystem::exists(path)) << path;
  for (const std::string& path : whole) EXPECT_TRUE(std::filesystem::exists(path)) << path;
}

TEST_F(DirectorySiteTest, ReceivesABundleInAnyPieces) {
  const pb::Manifest manifest = BundleManifest();
  for (const size_t piece : {1u, 3u, 100u}) {
    auto writer = site_->ReceiveBundle(manifest);
    ASSERT_TRUE(writer.ok()) << writer.status();
    const std::string bytes = "print(1)bb";
    for (size_t i = 0; i < bytes.size(); i += piece) {
      ASSERT_TRUE((*writer)->Write(bytes.substr(i, piece)).ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  const std::string digest = content::ManifestDigest(manifest);
  EXPECT_TRUE(site_->HasBundle(digest));
  EXPECT_EQ(Read(site_->BundleDirectory(digest) + "/z/b"), "bb");
}

TEST_F(DirectorySiteTest, BadBundlesLeaveNothing) {
  const pb::Manifest manifest = BundleManifest();
  auto writer = *site_->ReceiveBundle(manifest);
  ASSERT_TRUE(writer->Write("print(1)b").ok());
  EXPECT_EQ(status::Reason(writer->Finish().status()), "BUNDLE_MISMATCH");
  writer = *site_->ReceiveBundle(manifest);
  EXPECT_EQ(status::Reason(writer->Write("print(2)bb")), "BUNDLE_MISMATCH");
  writer = *site_->ReceiveBundle(manifest);
  EXPECT_EQ(status::Reason(writer->Write("print(1)bbb")), "BUNDLE_MISMATCH");
  writer.reset();
  EXPECT_FALSE(site_->HasBundle(content::ManifestDigest(manifest)));
  auto root = SafeRoot::Open(base_ + "/site");
  EXPECT_TRUE(root->ListFiles("")->empty());
}

TEST_F(DirectorySiteTest, CopiesOutputsAwayFromTheirWriters) {
  const auto staging = site_->OpenStaging(kUid, 1);
  ASSERT_TRUE(staging.ok());
  ASSERT_EQ(::mkdir((*staging + "/0").c_str(), 0755), 0);
  Write(*staging + "/0/model", "one");
  UniqueFd held(::open((*staging + "/0/model").c_str(), O_WRONLY));
  const absl::StatusOr<StagedOutput> staged = Copy(*staging + "/0", 5);
  ASSERT_TRUE(staged.ok()) << staged.status();
  ASSERT_TRUE(WriteAll(held.get(), "two", "model").ok());
  EXPECT_EQ(Read(staged->directory + "/model"), "one");
  EXPECT_EQ(staged->total_bytes, 3);

  // Nothing outside the generation's staging folder, and no links.
  EXPECT_EQ(status::Reason(Copy("/etc", 6).status()), "INVALID_FIELD");
  EXPECT_FALSE(Copy(*staging + "/../../../../etc", 6).ok());
  ASSERT_EQ(::symlink("/etc/passwd", (*staging + "/0/link").c_str()), 0);
  EXPECT_EQ(status::Reason(Copy(*staging + "/0", 7).status()), "NOT_A_REGULAR_FILE");
}

TEST_F(DirectorySiteTest, OpeningAGenerationRemovesOlderStagingAndUnnamedCopies) {
  const std::string old = *site_->OpenStaging(kUid, 1);
  ASSERT_EQ(::mkdir((old + "/0").c_str(), 0755), 0);
  Write(old + "/0/f", "x");
  const StagedOutput kept = *Copy(old + "/0", 1);
  const StagedOutput lost = *Copy(old + "/0", 2);
  site_->OpenStaging(kUid, 2).status().IgnoreError();
  // On the strand, which has heard of both copies then.
  absl::Notification collected;
  strand_.Post([&] {
    site_->CollectOutputs({kept.folder});
    collected.Notify();
  });
  collected.WaitForNotification();
  // One thread takes the work in order: when this copy is answered, the removals are done.
  ASSERT_FALSE(Copy(old + "/none", 3).ok());
  EXPECT_NE(::access(old.c_str(), F_OK), 0);
  EXPECT_NE(::access(lost.directory.c_str(), F_OK), 0);
  EXPECT_EQ(::access(kept.directory.c_str(), F_OK), 0);
}

TEST_F(DirectorySiteTest, ReceivesAnOutputAsACopyWithItsManifestOrNothing) {
  pb::CommitOutputRequest request;
  request.set_job_uid(kUid);
  request.set_generation(2);
  request.set_checkpoint_step(7);
  const pb::Manifest manifest = BundleManifest();
  const std::string outputs = absl::StrCat(base_, "/site/outputs/", kUid);
  {
    auto writer = site_->ReceiveOutput(request, manifest);
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Write("print(1)").ok());
    EXPECT_EQ(status::Reason((*writer)->Finish().status()), "OUTPUT_MISMATCH");
    EXPECT_EQ(status::Reason((*writer)->Write("xx")), "OUTPUT_MISMATCH");
  }
  EXPECT_FALSE(std::filesystem::exists(outputs));
  EXPECT_TRUE(std::filesystem::is_empty(base_ + "/site/staging/outputs"));
  auto writer = site_->ReceiveOutput(request, manifest);
  ASSERT_TRUE((*writer)->Write("print(1)b").ok());
  ASSERT_TRUE((*writer)->Write("b").ok());
  const absl::StatusOr<StagedOutput> staged = (*writer)->Finish();
  ASSERT_TRUE(staged.ok()) << staged.status();
  EXPECT_EQ(Read(staged->directory + "/z/b"), "bb");
  const auto opened = site_->OpenContent(staged->folder, staged->manifest_digest);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->manifest.files_size(), 3);
  EXPECT_EQ(opened->directory, staged->directory);
  // Without a manifest beside it, as older copies are, it is made again from the files.
  ASSERT_EQ(::unlink((staged->directory + ".manifest").c_str()), 0);
  EXPECT_TRUE(site_->OpenContent(staged->folder, staged->manifest_digest).ok());
  EXPECT_EQ(site_->OpenContent(staged->folder, "sha256:" + std::string(64, 'a')).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace capstan::data_loader
