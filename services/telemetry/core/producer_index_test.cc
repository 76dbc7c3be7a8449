#include "services/telemetry/core/producer_index.h"

#include <string>

#include "gtest/gtest.h"

namespace capstan::telemetry {
namespace {

TEST(ProducerIndexTest, OnlyHigherSequencesAreNew) {
  ProducerIndex index;
  EXPECT_TRUE(index.IsNew("p", "k", 1));
  index.Advance("p", "k", 5);
  EXPECT_FALSE(index.IsNew("p", "k", 5));
  EXPECT_FALSE(index.IsNew("p", "k", 4));
  EXPECT_TRUE(index.IsNew("p", "k", 6));
  EXPECT_TRUE(index.IsNew("p", "other", 1));
  EXPECT_TRUE(index.IsNew("other", "k", 1));
}

TEST(ProducerIndexTest, ComesBackFromItsHeader) {
  ProducerIndex index;
  index.Advance("a", "k", 5);
  index.Advance("b", "k", 7);
  index.Advance("a", "k", 6);
  ProducerIndex loaded;
  loaded.Load(index.ToHeader());
  EXPECT_FALSE(loaded.IsNew("a", "k", 6));
  EXPECT_TRUE(loaded.IsNew("a", "k", 7));
  EXPECT_FALSE(loaded.IsNew("b", "k", 7));
  EXPECT_EQ(loaded.ToHeader().SerializeAsString(), index.ToHeader().SerializeAsString());
}

TEST(ProducerIndexTest, LongNamesDoNotOutgrowAHeader) {
  ProducerIndex index;
  for (int i = 0; i < 10'000; ++i) {
    index.Advance(std::string(500, 'p'), std::string(500, 'k') + std::to_string(i), i + 1);
  }
  EXPECT_LE(index.ToHeader().ByteSizeLong(), ProducerIndex::kMaxBytes);
  EXPECT_GT(index.size(), 1000u);
  // The newest are those that are known.
  EXPECT_FALSE(index.IsNew(std::string(500, 'p'), std::string(500, 'k') + "9999", 10'000));
  EXPECT_TRUE(index.IsNew(std::string(500, 'p'), std::string(500, 'k') + "0", 1));
  ProducerIndex loaded;
  loaded.Load(index.ToHeader());
  EXPECT_EQ(loaded.size(), index.size());
}

TEST(ProducerIndexTest, ForgetsTheOneThatIsSilentForLongest) {
  ProducerIndex index;
  for (size_t i = 0; i < ProducerIndex::kMaxProducers; ++i) {
    index.Advance("p", std::to_string(i), 1);
  }
  index.Advance("p", "0", 2);
  index.Advance("p", "new", 1);
  EXPECT_EQ(index.size(), ProducerIndex::kMaxProducers);
  EXPECT_FALSE(index.IsNew("p", "0", 2));
  EXPECT_TRUE(index.IsNew("p", "1", 1));
}

}  // namespace
}  // namespace capstan::telemetry
