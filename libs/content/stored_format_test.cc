#include <fcntl.h>

#include <atomic>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "libs/content/manifest.h"
#include "libs/content/part_journal.h"
#include "libs/content/publish.h"
#include "libs/digest/sha256.h"
#include "libs/golden/golden.h"
#include "libs/safe_path/safe_path.h"
#include "libs/safe_path/testing/temporary_folder.h"

namespace capstan::content {
namespace {

using ::capstan::dataloader::v1::Manifest;

constexpr char kDigest[] =
    "sha256:06ef3ad1b2fc3ec5e56e320e382c7a5a18e52612788ab074888fe2fb566374a0";

SafeRoot Root(const TemporaryFolder& folder) { return SafeRoot::Open(folder.path()).value(); }

void Write(const SafeRoot& root, const std::string& path, const std::string& bytes, mode_t mode) {
  const auto fd = root.OpenFile(path, O_WRONLY | O_CREAT, mode);
  ASSERT_TRUE(fd.ok()) << fd.status();
  ASSERT_TRUE(WriteAll(fd->get(), bytes, path).ok());
}

Manifest TwoFiles() {
  Manifest manifest;
  Manifest::File& plain = *manifest.add_files();
  plain.set_path("a b");
  plain.set_size_bytes(5);
  plain.set_sha256(Sha256::Of("hello"));
  Manifest::File& program = *manifest.add_files();
  program.set_path("bin/run");
  program.set_sha256(Sha256::Of(""));
  program.set_executable(true);
  return manifest;
}

TEST(StoredFormatTest, ReleasedPartJournalsAreRead) {
  const golden::Format format("libs/content", "part_journal", "hex");
  for (const golden::Format::Version& version : format.versions()) {
    SCOPED_TRACE(version.path);
    const TemporaryFolder folder;
    Write(Root(folder), "parts.journal", version.bytes, 0600);
    const SafeRoot root = Root(folder);
    const auto journal = PartJournal::Open(root, "parts.journal");
    ASSERT_TRUE(journal.ok()) << journal.status();
    EXPECT_EQ(journal->found(), (std::set<PartJournal::PartKey>{{0, 0}, {0, 1}, {70000, 513}}))
        << golden::kMustRead;
  }
  const TemporaryFolder folder;
  const SafeRoot root = Root(folder);
  {
    auto journal = PartJournal::Open(root, "parts.journal");
    ASSERT_TRUE(journal.ok()) << journal.status();
    ASSERT_TRUE(journal->Append({{0, 0}, {0, 1}}).ok());
    ASSERT_TRUE(journal->Append({70000, 513}).ok());
  }
  const auto fd = root.OpenFile("parts.journal", O_RDONLY);
  ASSERT_TRUE(fd.ok());
  format.ExpectWritten(ReadAll(fd->get(), 1 << 10, "parts.journal").value());
}

// What a version is called comes of it: with another text every version that is loaded would be
// another one.
TEST(StoredFormatTest, AManifestsTextIsWhatItWas) {
  const golden::Format format("libs/content", "manifest", "txt");
  format.ExpectWritten(CanonicalForm(TwoFiles()));
  EXPECT_EQ(ManifestDigest(TwoFiles()), kDigest);
  EXPECT_EQ(VersionId(kDigest), std::string(kDigest).substr(7, 16));
}

TEST(StoredFormatTest, ReleasedContentIsFoundAndRead) {
  const golden::Format format("libs/content", "published", "folder");
  for (const golden::Format::Version& version : format.versions()) {
    SCOPED_TRACE(version.path);
    const TemporaryFolder folder;
    golden::RestoreFolder(version.bytes, folder.path());
    const SafeRoot root = Root(folder);
    const auto manifest =
        ReadManifest(root, "versions/" + DigestHex(ManifestDigest(TwoFiles())).value());
    ASSERT_TRUE(manifest.ok()) << manifest.status() << golden::kMustRead;
    EXPECT_EQ(CanonicalForm(*manifest), CanonicalForm(TwoFiles()));
  }
  const TemporaryFolder folder;
  const SafeRoot root = Root(folder);
  ASSERT_TRUE(root.MakeDirectories("versions").ok());
  ASSERT_TRUE(root.MakeDirectories("staged/bin", 0700).ok());
  Write(root, "staged/a b", "hello", 0600);
  Write(root, "staged/bin/run", "", 0700);
  const std::atomic<bool> stop = false;
  const auto manifest = HashFolder(root, "staged", stop);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_TRUE(PublishFolder(root, "staged", "versions", *manifest).ok());
  format.ExpectWritten(golden::DumpFolder(folder.path()));
}

}  // namespace
}  // namespace capstan::content
