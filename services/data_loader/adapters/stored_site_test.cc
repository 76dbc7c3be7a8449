// How a Site lies on its disk: what is published, what is staged, and what a load has noted.
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "libs/content/manifest.h"
#include "libs/digest/sha256.h"
#include "libs/golden/golden.h"
#include "libs/random/random.h"
#include "libs/safe_path/safe_path.h"
#include "libs/safe_path/testing/temporary_folder.h"
#include "libs/strand/thread_strand.h"
#include "libs/time/system_clock.h"
#include "services/data_loader/adapters/directory_site.h"
#include "services/data_loader/adapters/load_worker.h"

namespace capstan::data_loader {
namespace {

namespace pb = ::capstan::dataloader::v1;

constexpr char kUid[] = "0b9d2a34-5c6d-4e7f-8a9b-0c1d2e3f4a5b";
constexpr char kLoaded[] = "projects/p/dataLoads/loaded";
constexpr char kPlanned[] = "projects/p/dataLoads/planned";

pb::Manifest OneFile(const std::string& path, const std::string& bytes) {
  pb::Manifest manifest;
  pb::Manifest::File& file = *manifest.add_files();
  file.set_path(path);
  file.set_size_bytes(static_cast<int64_t>(bytes.size()));
  file.set_sha256(Sha256::Of(bytes));
  return manifest;
}

// Without what plans hold: when the test's own source was last written.
std::string WithoutPlans(absl::string_view dump) {
  std::string kept;
  bool in_plan = false;
  for (const absl::string_view line : absl::StrSplit(dump, '\n', absl::SkipEmpty())) {
    if (line.front() != ' ') in_plan = absl::EndsWith(line, "/plan.binpb");
    if (line.front() != ' ' || !in_plan) absl::StrAppend(&kept, line, "\n");
  }
  return kept;
}

class StoredSiteTest : public ::testing::Test {
 protected:
  StoredSiteTest() : strand_("site", &clock_) {
    EXPECT_EQ(mkdir((bucket_.path() + "/d").c_str(), 0755), 0);
    std::ofstream(bucket_.path() + "/d/a") << "abc";
  }
  ~StoredSiteTest() override {
    site_.reset();
    strand_.Stop();
  }

  void Open(const std::string& folder) {
    site_.reset();
    auto opened = DirectorySite::Open(folder, LoadOptions{}, 1, Random(1), &strand_);
    ASSERT_TRUE(opened.ok()) << opened.status() << golden::kMustRead;
    site_ = *std::move(opened);
    ASSERT_TRUE(site_->TakeOver().ok());
  }
  // With `stop` only up to its plan.
  absl::StatusOr<Published> Load(const std::string& folder, const std::string& load,
                                 bool only_plan) {
    const SafeRoot root = SafeRoot::Open(folder).value();
    LoadOptions options;
    options.allowed_source_roots = {bucket_.path()};
    std::atomic<bool> stop = false;
    const auto planned = [&](int64_t) {
      stop = only_plan;
      return absl::OkStatus();
    };
    const auto progressed = [](int64_t, int64_t) {};
    const auto publishing = [] {};
    StartLoad start;
    start.load = load;
    start.source_uri = absl::StrCat("file://", bucket_.path(), "/d/");
    return RunLoad(root, start, options, LoadListener{planned, progressed, publishing}, stop);
  }

  const TemporaryFolder bucket_;
  SystemClock clock_;
  ThreadStrand strand_;
  std::unique_ptr<DirectorySite> site_;
};

TEST_F(StoredSiteTest, ReleasedSitesAreTakenOver) {
  const golden::Format format("services/data_loader/adapters", "site", "folder");
  const pb::Manifest version = OneFile("a", "abc");
  const pb::Manifest bundle = OneFile("b.py", "print(1)");
  const pb::Manifest output = OneFile("c", "saved");
  for (const golden::Format::Version& released : format.versions()) {
    SCOPED_TRACE(released.path);
    const TemporaryFolder folder;
    golden::RestoreFolder(released.bytes, folder.path());
    Open(folder.path());
    const std::string digest = content::ManifestDigest(version);
    EXPECT_TRUE(site_->HasVersion(digest)) << golden::kMustRead;
    EXPECT_TRUE(site_->HasBundle(content::ManifestDigest(bundle))) << golden::kMustRead;
    EXPECT_TRUE(site_->OpenContent("versions/" + digest.substr(7), digest).ok());
    int copies = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder.path() + "/outputs/" + kUid)) {
      if (!entry.is_directory() || entry.path().filename() == "staging-3") continue;
      const std::string found =
          absl::StrCat("outputs/", kUid, "/", entry.path().filename().string());
      EXPECT_TRUE(site_->OpenContent(found, content::ManifestDigest(output)).ok());
      ++copies;
    }
    EXPECT_EQ(copies, 1);
    // What it has published is found again, without a look at the source.
    std::filesystem::remove(bucket_.path() + "/d/a");
    const auto again = Load(folder.path(), kLoaded, /*only_plan=*/false);
    ASSERT_TRUE(again.ok()) << again.status() << golden::kMustRead;
    EXPECT_EQ(again->manifest_digest, digest);
    std::ofstream(bucket_.path() + "/d/a") << "abc";
    EXPECT_TRUE(std::filesystem::exists(folder.path() + "/" + LoadFolder(kPlanned) + "/plan.binpb"))
        << golden::kMustRead;
  }

  const TemporaryFolder folder;
  Open(folder.path());
  ASSERT_TRUE(Load(folder.path(), kLoaded, /*only_plan=*/false).ok());
  EXPECT_TRUE(absl::IsCancelled(Load(folder.path(), kPlanned, /*only_plan=*/true).status()));
  auto bundle_writer = site_->ReceiveBundle(bundle);
  ASSERT_TRUE(bundle_writer.ok()) << bundle_writer.status();
  ASSERT_TRUE((*bundle_writer)->Write("print(1)").ok());
  ASSERT_TRUE((*bundle_writer)->Finish().ok());
  pb::CommitOutputRequest request;
  request.set_job_uid(kUid);
  request.set_generation(2);
  request.set_checkpoint_step(7);
  auto output_writer = site_->ReceiveOutput(request, output);
  ASSERT_TRUE(output_writer.ok()) << output_writer.status();
  ASSERT_TRUE((*output_writer)->Write("saved").ok());
  ASSERT_TRUE((*output_writer)->Finish().ok());
  bundle_writer->reset();
  output_writer->reset();
  ASSERT_TRUE(site_->OpenStaging(kUid, 3).ok());
  site_->Stop();
  format.ExpectWritten(WithoutPlans(golden::DumpFolder(folder.path())));
}

}  // namespace
}  // namespace capstan::data_loader
