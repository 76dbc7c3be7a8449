#include "libs/digest/sha256.h"

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace capstan {
namespace {

// FIPS 180-4 examples.
TEST(Sha256Test, MatchesPublishedVectors) {
  EXPECT_EQ(absl::BytesToHexString(Sha256::Of("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(absl::BytesToHexString(Sha256::Of("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256Test, PiecesMakeTheWholeAndTheObjectIsReusable) {
  Sha256 hash;
  hash.Update("a");
  hash.Update("bc");
  EXPECT_EQ(hash.Finish(), Sha256::Of("abc"));
  hash.Update("abc");
  EXPECT_EQ(hash.Finish(), Sha256::Of("abc"));
}

}  // namespace
}  // namespace capstan
