#include "services/data_loader/adapters/parted_digest.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "gtest/gtest.h"
#include "libs/digest/sha256.h"

namespace capstan::data_loader {
namespace {

using Sink = absl::FunctionRef<absl::Status(absl::string_view)>;
using Added = absl::StatusOr<absl::optional<std::string>>;

constexpr absl::string_view kContent = "0123456789abcdefXYZ";

absl::Status ReadContent(int64_t offset, int64_t size, Sink sink) {
  return sink(kContent.substr(static_cast<size_t>(offset), static_cast<size_t>(size)));
}

TEST(PartedDigestTest, IsThatOfTheFileInWhateverOrderItsPartsCome) {
  struct Range {
    int64_t offset;
    int64_t size;
    bool operator<(const Range& other) const { return offset < other.offset; }
  };
  std::vector<Range> parts = {{0, 5}, {5, 5}, {10, 1}, {11, 8}};
  do {
    PartedDigest digest(kContent.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      const Added added = digest.Add(parts[i].offset, parts[i].size, ReadContent);
      ASSERT_TRUE(added.ok()) << added.status();
      ASSERT_EQ(added->has_value(), i + 1 == parts.size());
      if (added->has_value()) {
        EXPECT_EQ(**added, Sha256::Of(kContent));
      }
    }
  } while (std::next_permutation(parts.begin(), parts.end()));
}

TEST(PartedDigestTest, AnEmptyFileHasItsDigestAtOnce) {
  PartedDigest digest(0);
  EXPECT_EQ(*digest.Add(0, 0, ReadContent), Sha256::Of(""));
}

// Each byte is read once, and only when all before it are there.
TEST(PartedDigestTest, ReadsInOrderAndOnce) {
  std::vector<int64_t> offsets;
  const auto read = [&offsets](int64_t offset, int64_t size, Sink sink) {
    offsets.push_back(offset);
    return ReadContent(offset, size, sink);
  };
  PartedDigest digest(kContent.size());
  EXPECT_FALSE((*digest.Add(10, 9, read)).has_value());
  EXPECT_TRUE(offsets.empty());
  EXPECT_FALSE((*digest.Add(0, 5, read)).has_value());
  EXPECT_TRUE((*digest.Add(5, 5, read)).has_value());
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 5, 10}));
}

// As when another thread brings a part while one is hashed.
TEST(PartedDigestTest, WhoIsHashingTakesWhatComesMeanwhile) {
  PartedDigest digest(kContent.size());
  bool brought = false;
  const auto read = [&](int64_t offset, int64_t size, Sink sink) {
    if (!brought) {
      brought = true;
      const Added meanwhile = digest.Add(5, 14, [](int64_t, int64_t, Sink) {
        ADD_FAILURE() << "two hash at once";
        return absl::OkStatus();
      });
      EXPECT_TRUE(meanwhile.ok() && !meanwhile->has_value());
    }
    return ReadContent(offset, size, sink);
  };
  EXPECT_EQ(*digest.Add(0, 5, read), Sha256::Of(kContent));
}

TEST(PartedDigestTest, AfterAnErrorThereIsNoDigest) {
  PartedDigest digest(kContent.size());
  EXPECT_EQ(
      digest.Add(0, 5, [](int64_t, int64_t, Sink) { return absl::DataLossError("gone"); }).status(),
      absl::DataLossError("gone"));
  EXPECT_FALSE((*digest.Add(5, 14, ReadContent)).has_value());
}

}  // namespace
}  // namespace capstan::data_loader
