#include "tools/capstan/cli/audit_chain.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/digest/sha256.h"

namespace capstan::cli {
namespace {

std::vector<std::string> Chain(int length) {
  std::vector<std::string> stored;
  std::string previous(32, '\0');
  for (int i = 1; i <= length; ++i) {
    event::v1::AuditRecord record;
    record.set_sequence(i);
    record.set_previous_hash(previous);
    record.set_act("act");
    stored.push_back(record.SerializeAsString());
    previous = Sha256::Of(stored.back());
  }
  return stored;
}

// Index of the first record that is refused, or -1.
int FirstRefused(const std::vector<std::string>& stored) {
  AuditChain chain;
  for (size_t i = 0; i < stored.size(); ++i) {
    if (!chain.Append(stored[i]).ok()) return static_cast<int>(i);
  }
  return -1;
}

TEST(AuditChainTest, AWholeChainIsAccepted) {
  const auto stored = Chain(5);
  AuditChain chain;
  for (const std::string& record : stored) ASSERT_TRUE(chain.Append(record).ok());
  EXPECT_EQ(chain.sequence(), 5);
  EXPECT_EQ(chain.hash(), Sha256::Of(stored.back()));
}

TEST(AuditChainTest, EveryChangeShows) {
  auto changed = Chain(5);
  event::v1::AuditRecord record;
  record.ParseFromString(changed[2]);
  record.set_act("another");
  changed[2] = record.SerializeAsString();
  EXPECT_EQ(FirstRefused(changed), 3);

  auto removed = Chain(5);
  removed.erase(removed.begin() + 1);
  EXPECT_EQ(FirstRefused(removed), 1);

  auto swapped = Chain(5);
  std::swap(swapped[1], swapped[2]);
  EXPECT_EQ(FirstRefused(swapped), 1);

  auto doubled = Chain(5);
  doubled.insert(doubled.begin(), doubled[0]);
  EXPECT_EQ(FirstRefused(doubled), 1);

  EXPECT_EQ(FirstRefused({"\xff"}), 0);
}

}  // namespace
}  // namespace capstan::cli
