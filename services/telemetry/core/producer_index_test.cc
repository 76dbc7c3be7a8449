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
