#include "services/scheduler/core/spec_codec.h"

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/random/random.h"

namespace capstan::scheduler {
namespace {

std::string Noise(size_t size, Random* random) {
  std::string bytes;
  while (bytes.size() < size) bytes.push_back(static_cast<char>(random->Below(256)));
  return bytes;
}

// Of a family of texts that differ in little.
std::string Alike(int family, size_t size, Random* random) {
  std::string text;
  for (int line = 0; text.size() < size; ++line) {
    absl::StrAppend(&text, "family ", family, " says in line ", line, ": ", random->Below(100),
                    "\n");
  }
  return text;
}

TEST(SpecCodecTest, GivesBackWhatItWasGiven) {
  Random random(1);
  SpecCodec codec;
  std::vector<std::string> given, encoded;
  const auto add = [&](std::string spec) {
    encoded.push_back(codec.Encode(spec));
    EXPECT_LE(encoded.back().size(), spec.size() + 1);
    given.push_back(std::move(spec));
  };
  add("");
  add(std::string(1, '\0'));
  for (int i = 0; i < 2000; ++i) {
    // Families come and go, so that it learns again and again.
    const size_t size = random.Below(i % 50 == 0 ? 100'000 : 2000);
    add(random.OneIn(3) ? Noise(size, &random) : Alike(i / 300, size, &random));
  }
  EXPECT_GT(codec.dictionaries(), 2u);
  for (size_t i = 0; i < given.size(); ++i) ASSERT_EQ(codec.Decode(encoded[i]), given[i]) << i;
}

TEST(SpecCodecTest, MakesSmallWhatResemblesOthers) {
  Random random(2);
  SpecCodec codec;
  for (int i = 0; i < 200; ++i) codec.Encode(Alike(1, 1000, &random));
  EXPECT_LE(codec.Encode(Alike(1, 1000, &random)).size(), 300u);
  for (int i = 0; i < 200; ++i) codec.Encode(Alike(2, 1000, &random));
  EXPECT_LE(codec.Encode(Alike(2, 1000, &random)).size(), 300u);
  EXPECT_LE(codec.Encode(Alike(1, 1000, &random)).size(), 300u) << "it has not forgotten";
}

TEST(SpecCodecTest, MakesTheSameOfTheSame) {
  Random random(3);
  SpecCodec codec;
  for (int i = 0; i < 100; ++i) codec.Encode(Alike(1, 1000, &random));
  const std::string spec = Alike(1, 1000, &random);
  EXPECT_EQ(codec.Encode(spec), codec.Encode(spec));
}

TEST(SpecCodecTest, DoesNotLearnForEver) {
  Random random(4);
  SpecCodec codec;
  for (int i = 0; i < 20'000; ++i) codec.Encode(Noise(250, &random));
  EXPECT_LE(codec.dictionaries(), 12u);
}

}  // namespace
}  // namespace capstan::scheduler
