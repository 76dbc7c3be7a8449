#include "libs/content/manifest.h"

#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/digest/sha256.h"

namespace capstan::content {
namespace {

using ::capstan::dataloader::v1::Manifest;

Manifest Make(const std::vector<std::string>& paths) {
  Manifest manifest;
  for (const std::string& path : paths) {
    Manifest::File& file = *manifest.add_files();
    file.set_path(path);
    file.set_size_bytes(3);
    file.set_sha256(Sha256::Of("abc"));
  }
  return manifest;
}

// The form is a contract: versions are named by it.
TEST(ManifestTest, CanonicalFormIsFixed) {
  Manifest manifest = Make({"a/b"});
  manifest.mutable_files(0)->set_executable(true);
  EXPECT_EQ(CanonicalForm(manifest),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad 3 x a/b\n");
  EXPECT_EQ(ManifestDigest(Manifest()),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(VersionId(ManifestDigest(Manifest())), "e3b0c44298fc1c14");
}

TEST(ManifestTest, ChecksOrderTwinsSizesDigests) {
  EXPECT_TRUE(CheckManifest(Make({"a", "b/c"})).ok());
  EXPECT_FALSE(CheckManifest(Make({"b", "a"})).ok());
  EXPECT_FALSE(CheckManifest(Make({"a", "a"})).ok());
  EXPECT_FALSE(CheckManifest(Make({"A", "a"})).ok());
  EXPECT_FALSE(CheckManifest(Make({"../a"})).ok());
  Manifest negative = Make({"a"});
  negative.mutable_files(0)->set_size_bytes(-1);
  EXPECT_FALSE(CheckManifest(negative).ok());
  Manifest huge = Make({"a", "b"});
  huge.mutable_files(0)->set_size_bytes(kMaxContentBytes - huge.files(1).size_bytes());
  EXPECT_TRUE(CheckManifest(huge).ok());
  EXPECT_EQ(TotalBytes(huge), kMaxContentBytes);
  huge.mutable_files(1)->set_size_bytes(std::numeric_limits<int64_t>::max());
  EXPECT_FALSE(CheckManifest(huge).ok());
  Manifest short_digest = Make({"a"});
  short_digest.mutable_files(0)->set_sha256("x");
  EXPECT_FALSE(CheckManifest(short_digest).ok());
}

TEST(ManifestTest, DigestHexTakesOnlyItsForm) {
  EXPECT_TRUE(DigestHex(ManifestDigest(Manifest())).ok());
  EXPECT_FALSE(DigestHex("sha256:../../etc").ok());
  EXPECT_FALSE(DigestHex("").ok());
  EXPECT_FALSE(DigestHex("sha256:" + std::string(64, 'A')).ok());
}

}  // namespace
}  // namespace capstan::content
