#include "libs/content/manifest.h"

#include <cstddef>
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

// Whoever reads a manifest compares its digest with the one that names it: of any bit of it that
// has flipped they see it, or it is no manifest any more, or it says the same as before.
TEST(ManifestTest, NoBitFlipsUnseen) {
  Manifest manifest = Make({"a", "b/c", "d"});
  manifest.mutable_files(1)->set_executable(true);
  manifest.mutable_files(2)->set_size_bytes(int64_t{5} << 30);
  const std::string stored = manifest.SerializeAsString();
  const std::string digest = ManifestDigest(manifest);
  int parsed = 0;
  int refused = 0;
  for (size_t bit = 0; bit < stored.size() * 8; ++bit) {
    std::string flipped = stored;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    Manifest read;
    if (!read.ParseFromString(flipped)) continue;
    ++parsed;
    if (!CheckManifest(read).ok()) ++refused;
    // A flag that is not 0 says the same, whatever else it is.
    if (read.SerializeAsString() == stored) continue;
    EXPECT_NE(ManifestDigest(read), digest) << "bit " << bit;
  }
  // Of names, sizes and digests most are manifests still.
  EXPECT_GT(parsed, static_cast<int>(stored.size()));
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, parsed);
}

TEST(ManifestTest, DigestHexTakesOnlyItsForm) {
  EXPECT_TRUE(DigestHex(ManifestDigest(Manifest())).ok());
  EXPECT_FALSE(DigestHex("sha256:../../etc").ok());
  EXPECT_FALSE(DigestHex("").ok());
  EXPECT_FALSE(DigestHex("sha256:" + std::string(64, 'A')).ok());
}

}  // namespace
}  // namespace capstan::content
